"""What `.ci/run` runs a second time with ../shared beside the checkout, and the mutants of `.ci/nightly`."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@cache
def beside() -> set[str]:
    """Return the test files that reach ../shared."""
    command = [sys.executable, str(ROOT / ".ci" / "beside")]
    return {*subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()}


def test_each_file_that_skips_tests_without_shared_runs_again_with_it() -> None:
    tests = {str(path.relative_to(ROOT)): path.read_text() for path in ROOT.glob("tests/**/test_*.py")}
    skipping = {
        path for path, text in tests.items() if "beside this checkout" in text or "needs_judges" in text
    }

    assert skipping - {"tests/test_ci.py"} <= beside()


def test_a_file_that_reaches_shared_through_what_it_imports_runs_again_and_others_do_not() -> None:
    assert (
        "tests/examples/test_tenex.py" in beside()
    )  # its harness asks the judges, and skips nothing without
    assert "tests/domain/test_codec.py" not in beside()


def test_every_module_has_a_folder_of_tests_for_its_mutants() -> None:
    mutants = runpy.run_path(str(ROOT / ".ci" / "mutants"))
    modules = [path.relative_to(ROOT) for path in (ROOT / "stenolog").rglob("*.py")]
    rooms = {name for path in modules for name in mutants["room"](str(path))}

    assert [name for name in rooms if not [*(ROOT / "tests" / name).glob("**/test_*.py")]] == []
    assert [room for room in (*mutants["CORE"], *mutants["TESTS"]) if not [*(ROOT / room).glob("*.py")]] == []


@pytest.mark.slow
def test_a_mutant_that_no_test_of_its_room_notices_is_listed(tmp_path: Path) -> None:
    files = {
        "stenolog/__init__.py": "",
        "stenolog/domain/__init__.py": "",
        "stenolog/domain/sums.py": "def more(x):\n    return x + 1\n\n\ndef less(x):\n    return x - y\n",
        "tests/domain/test_sums.py": "from stenolog.domain.sums import more\n\n"
        "def test_more():\n    assert more(1) == 2\n",
        "pytest.ini": "[pytest]\npythonpath = .\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    for command in ("init --quiet", "add ."):
        subprocess.run(["git", "-C", str(tmp_path), *command.split()], check=True)
    done = subprocess.run(
        [sys.executable, str(tmp_path / ".ci" / "mutants")], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()

    assert done.returncode == 1, done.stderr
    assert lines[-1].startswith("1 of 2 survive")
    assert [line.split()[1] for line in lines if "SURVIVES" in line] == ["stenolog/domain/sums.py:6"]
    assert [line.split()[0] for line in lines if ":2 `" in line] == ["tests/domain/test_sums.py::test_more"]
