"""What `.ci/run` runs a second time, with ../shared beside the checkout."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

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
