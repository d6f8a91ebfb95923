"""What every example is started by: how it ends where something is wrong, or nobody reads on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.examples import harness
from tests.forked import python

NAMES = ("neurocrew", "tenex")


def ended(code: str, reads: int = -1) -> tuple[int, str, str]:
    """Return how a program with such a `main` ends; so many lines of its output are read."""
    program = f"import sys\nfrom examples.shell import run\ndef main():\n    {code}\nrun(main)"
    with subprocess.Popen(
        python("-c", program),
        cwd=harness.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin, "a pipe"
        assert process.stdout, "a pipe"
        assert process.stderr, "a pipe"
        out = process.stdout.read() if reads < 0 else "".join(process.stdout.readline() for _ in range(reads))
        process.stdout.close()
        process.stdin.close()
        errors = process.stderr.read()
    return process.returncode, out, errors


def test_what_it_returns_is_its_exit_code() -> None:
    assert ended("print('done')") == (0, "done\n", "")
    assert ended("return 3") == (3, "", "")


def test_an_error_is_one_line() -> None:
    assert ended("open('no/such')") == (1, "", "✗ [Errno 2] No such file or directory: 'no/such'\n")
    assert ended("import stenolog; raise stenolog.errors.CallerError('so\\n so')") == (1, "", "✗ so so\n")


def test_ctrl_c_is_an_end() -> None:
    assert ended("raise KeyboardInterrupt") == (130, "", "\n")


def test_where_nobody_reads_on_it_ends_and_says_nothing() -> None:
    assert ended("for n in range(99999): print(n)", reads=2) == (0, "0\n1\n", "")
    assert ended("print('x' * 50); sys.stdin.readline()", reads=0) == (0, "", "")


@pytest.mark.about_file("a path without a folder")
@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_a_log_is_said_in_a_line(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        python("-m", f"examples.{name}", "--db", str(tmp_path / "no" / "such.db")),
        cwd=harness.ROOT,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"✗ {tmp_path}/no/such.db: the directory {tmp_path}/no does not exist\n"
