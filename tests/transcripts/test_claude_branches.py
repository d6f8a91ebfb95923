"""Claude Code sessions are trees: prompts that leave something behind, and branches that are none."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from stenolog.requests import build
from tests.transcripts.given import (
    Import,
    Json,
    assistant,
    importing,
    lines,
    text,
    user,
)


def asked(into: Import) -> list[str]:
    """Return the users' messages and the answers that the model is sent, in order."""
    messages = build(into.entries, "claude", api="openai-chat").body["messages"]
    return [message["content"] for message in messages if message["role"] in ("user", "assistant")]


@given(choices=st.lists(st.integers(0, 30), min_size=1, max_size=12), cut=st.integers(0, 30))
def test_whatever_is_gone_back_to_the_way_to_the_last_prompt_is_in_context(
    choices: list[int], cut: int
) -> None:
    """Each prompt goes on from any answer before it, or from the beginning; the file comes in two pieces."""
    records: list[Json] = []
    ways: dict[str | None, list[str]] = {None: []}
    way: list[str] = []
    for number, choice in enumerate(choices):
        parent = list(ways)[choice % len(ways)]
        way = [*ways[parent], f"u{number}"]
        records += [
            user(f"u{number}", parent, f"u{number}"),
            assistant(f"a{number}", f"u{number}", text(f"a{number}")),
        ]
        ways[f"a{number}"] = [*way, f"a{number}"]

    with TemporaryDirectory() as folder, importing(Path(folder)) as into:
        if before := records[: cut % len(records)]:
            into.file(lines(*before))
        into.file(lines(*records[:-1]))
        forks = len(into.log.names()) - 1

        assert asked(into) == way
        assert forks == into.report.conversations[0].decisions["rewound"]
