"""What commands that ask before they remove something do with every answer, at a real terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import CTRL_C, CTRL_D, Terminal

ASKING = {"deleted": ("delete", "demo"), "erased": ("erase", "demo", "4")}


@pytest.mark.parametrize("undone", ASKING)
@pytest.mark.parametrize("keys", ["n\n", "\n", CTRL_D, CTRL_C], ids=["n", "enter", "ctrl-d", "ctrl-c"])
def test_every_answer_but_yes_leaves_all_as_it_was_and_says_so_in_one_line(
    keys: str, undone: str, demo: Callable[..., Any], tmp_path: Path
) -> None:
    before = demo("log", "demo").out
    with Terminal(*ASKING[undone], cwd=tmp_path) as terminal:
        terminal.expect("[y/N]: ")
        if keys != CTRL_C:  # a second one might come while the program ends
            terminal.type(keys)
        terminal.expect(f"nothing was {undone}", insist=keys if keys == CTRL_C else "")
        status = terminal.ended()

    assert status == 130
    assert "defect" not in terminal.text
    assert "✗" not in terminal.text
    assert demo("log", "demo").out == before


@pytest.mark.parametrize("undone", ASKING)
def test_yes_does_what_was_asked(undone: str, demo: Callable[..., Any], tmp_path: Path) -> None:
    with Terminal(*ASKING[undone], cwd=tmp_path) as terminal:
        terminal.expect("[y/N]: ")
        terminal.type("y\n")
        terminal.expect(undone)
        assert terminal.ended() == 0
