"""A store that fails for a while costs no entry, and what cannot be recorded keeps its secrets."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stenolog.apps.tap.recording.process import working_place
from stenolog.apps.tap.recording.session import Session
from stenolog.apps.tap.recording.transcriber import GAPS
from stenolog.domain.errors import OperationalError
from tests.recording.given import Tap, anthropic, assistant, said, user

TOKEN = "gh" + "p_0123456789abcdefghijklmnopqrstuvwxyz"


def fail_once(monkeypatch: pytest.MonkeyPatch) -> None:
    append, failures = Session._append, ["the disk is full"]

    def failing(*args: Any, **fields: Any) -> Any:
        if failures:
            raise OperationalError(failures.pop())
        return append(*args, **fields)

    monkeypatch.setattr(Session, "_append", failing)


def twice(store: Callable[[], object]) -> None:
    with pytest.raises(OperationalError):
        store()
    store()


def test_an_answer_that_the_store_did_not_take_is_recorded_at_the_next_try(
    monkeypatch: pytest.MonkeyPatch, tap: Tap
) -> None:
    exchange = tap.exchange(anthropic(user("Hi.")))
    tap.recording.request(exchange)

    fail_once(monkeypatch)
    twice(lambda: tap.answer(exchange, said("Hello.")))

    assert [getattr(entry.event, "text", "") for entry in tap.entries()] == ["", "Hi.", "Hello."]


def test_settings_that_the_store_did_not_take_are_recorded_at_the_next_try(
    monkeypatch: pytest.MonkeyPatch, tap: Tap
) -> None:
    tap.send(anthropic(user("Hi.")), said("Hello."))
    more = anthropic(user("Hi."), assistant("Hello."), user("Bake."), tools=("bash", "oven"))
    exchange = tap.exchange(more)

    fail_once(monkeypatch)
    twice(lambda: tap.recording.request(exchange))

    kinds = [type(entry.event).__name__ for entry in tap.entries()]
    assert kinds == ["ModeSwitch", "UserMessage", "AssistantMessage", "ModeSwitch", "UserMessage"]


def test_an_answer_to_redact_that_could_not_be_recorded_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> Any:
        raise ValueError(f"no such thing: {TOKEN}")

    tap = Tap()
    monkeypatch.setattr(Session, "record_answer", failing)
    tap.send(anthropic(user("Hi.")), said(TOKEN), redacts=True)

    (_, entry) = tap.log[GAPS].entries()
    event: Any = entry.event
    assert event.text.endswith("ValueError: no such thing: [redacted github-token]")
    assert zlib.decompress(tap.log.blobs[event.meta["tap"]["answer"]]) == b""


@pytest.mark.parametrize("kind", ["unreadable", "too-large"])
def test_a_request_that_could_not_be_redacted_is_noted(kind: str, tap: Tap) -> None:
    tap.send(b"", redacts=True, redacted=(kind,))
    tap.send(b"", redacts=True, redacted=(kind,), path="/v1/files")

    (_, entry) = tap.log[GAPS].entries()
    words = f"The tap has kept nothing of POST /v1/messages: it could not be redacted ({kind})"
    assert getattr(entry.event, "text", "") == words


def test_a_count_of_tokens_that_is_none_is_redacted(tap: Tap) -> None:
    path = "/v1/messages/count_tokens"
    tap.send(anthropic(user("Hi.")), f"no, {TOKEN}".encode(), path=path, redacts=True)

    assert getattr(tap.entries()[-1].event, "text", "") == "no, [redacted github-token]"


def test_a_file_of_git_s_that_names_no_path_is_no_branch(tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(b"gitdir: a\0b")

    assert working_place(str(tmp_path))["cwd"] == str(tmp_path)
