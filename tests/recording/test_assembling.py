"""Records of a journal become exchanges, and frames of a websocket become turns."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import (
    ClientPerMessageDeflateFactory,
    ServerPerMessageDeflateFactory,
)
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from stenolog.apps.tap.journal import JournalRecord as Record
from stenolog.apps.tap.recording.process import Assembler, working_place
from stenolog.apps.tap.recording.session import Session
from stenolog.apps.tap.recording.transcriber import GAPS
from stenolog.domain.errors import OperationalError, StoreError
from tests.recording.given import PATHS, START, Tap, anthropic, assistant, compact, outcomes, said, user

HI = "How many loaves are in the oven, and when will the last of them be done?"
MODEL = "gpt-5.2"


def begin(number: int, path: str = PATHS["anthropic"], **fields: Any) -> Record:
    headers = [["User-Agent", "claude-cli/2"], ["X-Claude-Code-Session-Id", "s-1"]]
    given = {
        "id": f"run-{number}",
        "time": START.isoformat(),
        "method": "POST",
        "path": path,
        "headers": headers,
    }
    return Record("request", number, 1, json.dumps({**given, **fields}).encode())


def sent(number: int, content: bytes, answer: bytes) -> Iterator[Record]:
    """Yield the records of a whole exchange."""
    yield begin(number)
    yield Record("body", number, 2, content[:50])
    yield Record("body", number, 3, content[50:])
    yield Record("ready", number, 4, b'{"bytes": 1, "sha256": ""}')
    head = {"status": 200, "headers": [["Content-Type", "text/event-stream"]]}
    yield Record("response", number, 5, json.dumps(head).encode())
    yield from (Record("data", number, 6, answer[at : at + 7]) for at in range(0, len(answer), 7))
    yield Record("end", number, 7, b'{"reason": ""}')


def test_an_exchange_is_recorded_when_it_has_ended_and_its_request_before(tap: Tap) -> None:
    assembler = Assembler(tap.recording)
    done: list[int] = []
    kinds: list[list[str]] = []
    for record in sent(1, compact(anthropic(user(HI))), said("Three.")):
        done += assembler.take(record)
        kinds.append([kind for kind, _ in tap.told()] if tap.names else [])

    assert (done, kinds[3], kinds[-1]) == ([1], ["user_message"], ["user_message", "assistant_message"])
    assert outcomes(tap.proofs()) == {"same"}


def test_exchanges_that_overlap_are_kept_apart(tap: Tap) -> None:
    assembler = Assembler(tap.recording)
    one, other = (list(sent(n, compact(anthropic(user(f"{HI} {n}"))), said(f"{n}."))) for n in (1, 2))
    for pair in zip(one, other, strict=True):
        for record in pair:
            list(assembler.take(record))

    assert outcomes(tap.proofs()) == {"same"}
    assert {words for kind, words in tap.told() if kind == "assistant_message"} == {"1.", "2."}


def test_an_end_without_a_beginning_is_done_and_a_gap_is_said(tap: Tap) -> None:
    assembler = Assembler(tap.recording)
    gap = json.dumps({"reason": "no space left on device", "exchanges": 3, "since": "2026-01-02T03:04:05"})

    assert list(assembler.take(Record("end", 9, 1, b"{}"))) == [9]
    assert list(assembler.take(Record("gap", 10, 1, gap.encode()))) == [10]
    assert tap.told("tap-gaps") == [
        ("user_message", "The tap could not record 3 exchanges: no space left on device")
    ]


def test_what_the_store_does_not_take_is_tried_again(monkeypatch: pytest.MonkeyPatch, tap: Tap) -> None:
    failures = iter([StoreError("full"), StoreError("full")])
    waits: list[float] = []
    record = tap.recording.request

    def failing(exchange: Any) -> bool:
        for error in failures:
            raise error
        return record(exchange)

    monkeypatch.setattr(tap.recording, "request", failing)
    assembler = Assembler(tap.recording, waits.append)
    for each in sent(1, compact(anthropic(user(HI))), said("Three.")):
        list(assembler.take(each))

    assert len(waits) == 2
    assert [words for _, words in tap.told()] == [HI, "Three."]


def test_a_request_that_is_too_large_to_be_taken_apart_is_kept_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tap: Tap
) -> None:
    monkeypatch.setattr("stenolog.apps.tap.recording.process.MAX_CONTENT_BYTES", 1_000)
    monkeypatch.setattr("stenolog.apps.tap.recording.process.BLOB_BYTES", 300)
    assembler, content = Assembler(tap.recording), compact(anthropic(user(HI * 30)))
    pieces = [Record("body", 1, 2, content[at : at + 70]) for at in range(0, len(content), 70)]
    end = Record("end", 1, 7, b'{"reason": ""}')
    done = [
        n for each in (begin(1), *pieces, Record("ready", 1, 4, b"{}"), end) for n in assembler.take(each)
    ]
    about: Any = tap.entries("tap-gaps")[-1].event.meta  # type: ignore[union-attr]
    blobs = about["tap"]["request"]

    assert done == [1]
    assert b"".join(tap.log.blobs[sha] for sha in blobs) == content
    assert max(len(tap.log.blobs[sha]) for sha in blobs) == 300


def item(id: str, words: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return {"id": id, "type": "message", "role": "assistant", "content": content}


def events(id: str, words: str) -> list[dict[str, Any]]:
    response = {
        "id": id,
        "object": "response",
        "model": MODEL,
        "status": "completed",
        "output": [item("m", words)],
    }
    return [
        {"type": "response.created", "response": {**response, "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item("m", words)},
        {"type": "response.completed", "response": response},
    ]


@pytest.mark.parametrize("compressed", [True, False])
def test_turns_over_a_websocket_are_requests_and_answers(compressed: bool) -> None:
    offered = [ClientPerMessageDeflateFactory()] if compressed else []
    taken = [ServerPerMessageDeflateFactory()] if compressed else []
    client = ClientProtocol(parse_uri("ws://127.0.0.1/v1/responses"), extensions=offered)
    server = ServerProtocol(extensions=taken)
    client.send_request(client.connect())
    server.receive_data(b"".join(client.data_to_send()))
    (upgrade,) = server.events_received()
    response = server.accept(upgrade)  # type: ignore[arg-type]
    server.send_response(response)
    client.receive_data(b"".join(server.data_to_send()))
    tap = Tap(headers={"user-agent": "codex_exec/0.169.0"})
    assembler = Assembler(tap.recording)
    headers = [[name, value] for name, value in response.headers.raw_items()]
    records = [begin(1, "/v1/responses", method="GET"), Record("ready", 1, 1, b"{}")]
    records.append(Record("response", 1, 2, json.dumps({"status": 101, "headers": headers}).encode()))
    asked: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "input_text", "text": HI}]}]
    for number, words in enumerate(("Three.", "Yes.")):
        body = {
            "type": "response.create",
            "model": MODEL,
            "instructions": "Bake.",
            "input": asked,
            "stream": True,
        }
        client.send_text(json.dumps(body).encode())
        records += [
            Record("up", 1, 3, piece) for data in client.data_to_send() for piece in (data[:9], data[9:])
        ]
        for event in events(f"resp_{number}", words):
            server.send_text(json.dumps(event).encode())
        records += [Record("down", 1, 4, data) for data in server.data_to_send()]
        asked = [*asked, item("m", words), {"role": "user", "content": "Sure?"}]
    for record in [*records, Record("end", 1, 9, b'{"reason": ""}')]:
        list(assembler.take(record))

    assert [words for _, words in tap.told()] == [HI, "Three.", "Sure?", "Yes."]
    assert outcomes(tap.proofs()) == {"same"}


def test_a_websocket_that_closes_in_mid_answer_leaves_an_error_with_what_had_arrived() -> None:
    tap = Tap(headers={"user-agent": "codex_exec/0.169.0"})
    assembler = Assembler(tap.recording)
    client = ClientProtocol(parse_uri("ws://127.0.0.1/v1/responses"))
    client.state = client.state.OPEN
    client.send_text(json.dumps({"type": "response.create", "model": MODEL, "input": HI}).encode())
    head = json.dumps({"status": 101, "headers": []}).encode()
    up = [Record("up", 1, 3, data) for data in client.data_to_send()]
    delta = {
        "type": "response.output_text.delta",
        "output_index": 0,
        "content_index": 0,
        "delta": "Three loa",
    }
    server = ServerProtocol()
    server.state = server.state.OPEN
    server.send_text(json.dumps(delta).encode())
    down = [Record("down", 1, 4, data) for data in server.data_to_send()]
    end = Record("end", 1, 5, b'{"reason": "upstream-closed"}')
    for record in [begin(1, "/v1/responses", method="GET"), Record("response", 1, 2, head), *up, *down, end]:
        list(assembler.take(record))

    assert tap.told() == [("user_message", HI), ("llm_error", "Three loa")]


# A store that fails for a while costs no entry, and what cannot be recorded keeps its secrets.


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
