"""The tools: a small project to look at. They change nothing, so a call may run again after a crash."""

from __future__ import annotations

from stenolog.tools import tool

FILES = {
    "loaves.py": "def loaves(trays): return [bake(tray) for tray in range(1, trays)]",
    "oven.py": "def bake(tray): return 3",
    "test_loaves.py": "def test_loaves(): assert sum(loaves(4)) == 12",
}
PAGES = ["flour", "water", "salt", "yeast", "rye", "oats", "seeds", "honey", "malt", "butter", "milk", "eggs"]


@tool(repeat="safe")
def ls() -> str:
    """List the files of the project."""
    return ", ".join(sorted(FILES))


@tool(repeat="safe")
def read_file(path: str) -> str:
    """Read a file of the project."""
    return FILES.get(path, f"there is no {path}")


@tool(repeat="safe")
def run_tests() -> str:
    """Run the tests of the project."""
    return "FAILED test_loaves: 9 != 12"


@tool(repeat="safe")
def read_page(page: int) -> str:
    """Read a page of the recipe book, which has 12."""
    return f"Page {page}: {PAGES[page - 1]}. " + "Knead, wait, fold, wait, shape, wait, bake. " * 12
