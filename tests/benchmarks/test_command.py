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


def test_a_checkout_without_the_extra_that_a_benchmark_needs_is_told_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'pytest'", name="pytest")

    monkeypatch.setattr("importlib.import_module", missing)

    with pytest.raises(SystemExit, match="2"):
        main(["kills"])

    assert "kills: pytest is not installed: pip install -e '.[dev]'" in capsys.readouterr().err


@pytest.mark.slow
def test_the_benchmark_of_the_cache_runs_on_every_api(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache"]) == 0

    assert "between cuts, bytes of the conversation sent anew" in capsys.readouterr().out
