"""A log is opened again by its address, wherever the process has gone since."""

from __future__ import annotations

from pathlib import Path

import pytest

import stenolog
from stenolog.adapters.conversation.verifying.parallel import run_in_processes
from stenolog.adapters.engine.model_calls.dispatch import rebuilt
from stenolog.apps.inspect.pages.proof import checked_anew
from stenolog.events import UserMessage


def names(log: stenolog.Log, _: int) -> list[str]:
    return list(log)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> stenolog.Log:
    """Return a log that was opened by a relative path, before the process went to another folder."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    log = stenolog.open("talks.db")
    log["demo"].append(UserMessage(text="Hi."))
    monkeypatch.chdir("elsewhere")
    return log


def test_the_address_is_absolute_and_the_path_as_it_was_given(log: stenolog.Log, tmp_path: Path) -> None:
    assert (log.path, log.recorder.address) == ("talks.db", str(tmp_path / "talks.db"))
    log.close()


def test_the_page_of_the_proof_and_the_check_of_a_request_open_the_same_log(log: stenolog.Log) -> None:
    log["demo"].join("coder", model="m")
    request = log["demo"].request("coder", api="openai-chat")

    assert rebuilt(log["demo"], request, "openai-chat").sha256 == request.sha256
    assert not checked_anew(log, "demo").failed
    log.close()


@pytest.mark.slow
def test_other_processes_open_the_same_log(log: stenolog.Log) -> None:
    assert [*run_in_processes(log, names, [1, 2], 2)] == [["demo"]] * 2
    log.close()
