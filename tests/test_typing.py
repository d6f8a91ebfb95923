"""Type checkers agree with what the API does: the programs in `tests/typing` pass both, and one runs.

mypy checks it with the rest of the tests; pyright, which many editors use, is run here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "typing" / "program.py"


@pytest.mark.slow
def test_pyright_in_strict_mode_finds_the_planted_mistakes_and_no_other() -> None:
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--pythonpath",
        sys.executable,
        "-p",
        str(PROGRAM.parent / "strict.json"),
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (found.returncode, found.stdout) == (0, "0 errors, 0 warnings, 0 notes\n")


def test_the_program_runs() -> None:
    found = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)

    assert (found.returncode, found.stderr) == (0, "")
