"""What others have written is read in time proportional to its length, whatever it is made of."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from stenolog.adapters.programs.claude_code import line
from stenolog.apps.chats import rendering
from stenolog.apps.cli import terminal
from stenolog.apps.cli.draw.layout import wrapped
from stenolog.projections.messages import quoting
from stenolog.projections.terminal_text import shown_call

SECONDS = 2.0
"""Of the processor. What takes the square of the length takes ten seconds at least, here."""


def drawn(text: str) -> None:
    terminal.draw([wrapped(text)], "never", page=False)


def title(text: str) -> str:
    return line.title_of_prompt([{"type": "text", "text": text}])


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (quoting.escape, f"<{' ' * 40_000}x"),
        (quoting.escape, f"<{' ' * 40_000}é"),
        (quoting.harmless, f"<{' ' * 40_000}é["),
        (quoting.harmless, "[" + "* " * 40_000),
        (quoting.unmarked, "User (" * 40_000),
        (quoting.unmarked, f"\nUser ({') ' * 40_000}é"),
        (quoting.unmarked, "\n " * 40_000 + "*" * 40_000),
        (lambda text: shown_call("f", text), "\u200b" + '\\"' * 60_000),
        (lambda text: shown_call("f", text), "\u200b" + '"\\' * 60_000),
        (rendering.split, f"```{' ' * 16_000}{'x' * 50}"),
        (title, f"<command-name>{' ' * 4_000}"),
        (title, "<command-name>" * 15_000),
        (drawn, f"a{' ' * 60_000}b"),
    ],
)
def test_no_text_takes_more_time_than_its_length_accounts_for(
    read: Callable[[str], object], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.process_time()

    read(text)

    assert time.process_time() - begun < SECONDS
