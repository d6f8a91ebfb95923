"""`python -m benchmarks`: what is asked for, and what there is."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import main


def test_a_benchmark_that_there_is_not_is_refused_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["append", "nosuch"])

    said = capsys.readouterr()
    assert "no benchmark 'nosuch'; there are agents, append, " in said.err
    assert said.out == ""
