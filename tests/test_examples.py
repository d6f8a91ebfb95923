"""Every example runs, and says what it is for."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = [path for path in sorted(FOLDER.glob("*.py")) if "__main__" in path.read_text()]
"""The examples of one file; what the folders share is none."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_runs_and_shows_something(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")

    assert ast.get_docstring(ast.parse(example.read_text()))
    assert capsys.readouterr().out.strip()
