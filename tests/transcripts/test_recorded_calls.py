"""Recorded calls of models' APIs: HTTP archives, and the logs of LiteLLM and Helicone."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, Log, ToolResult, UserMessage
from stenolog.errors import CallerError, UnknownFormatError
from stenolog.importers import import_file
from stenolog.parts import ImagePart, ReasoningPart
from stenolog.projections.requests.proofs import proofs
from tests.recording.given import anthropic, assistant, call, result, said, thought, user
from tests.requests.judging import SHARED
from tests.transcripts.given import Import, Json, lines

pytestmark = pytest.mark.usefixtures("sound")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
SECRETS = ("sk-ant-api03-" + "a" * 40, "AIzaSy" + "b" * 33, "sessioncookie123", "Zm9vOmJhcg-secret")
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"}}
TOOL = {"type": "function", "function": {"name": "shelf", "parameters": {"type": "object", "properties": {}}}}
ASKED = [
    {"role": "system", "content": "You are a baker."},
    {"role": "user", "content": [{"type": "text", "text": "Which loaves are left?"}, PICTURE]},
]
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "shelf", "arguments": '{"a":"rye"}'}}
    ],
}
LOOKED = [*ASKED, CALLS, {"role": "tool", "tool_call_id": "c1", "content": "12 loaves of rye"}]
SAID = {"role": "assistant", "content": "Twelve of rye."}
THANKED = [*LOOKED, SAID, {"role": "user", "content": "And tomorrow?"}]
ERROR = {"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}


def completion(message: Json, n: int) -> Json:
    used = {"prompt_tokens": 100 * n, "completion_tokens": 10, "total_tokens": 100 * n + 10}
    choice = {
        "index": 0,
        "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
        "message": message,
    }
    return {
        "id": f"chatcmpl-{n}",
        "object": "chat.completion",
        "model": "gpt-4o",
        "choices": [choice],
        "usage": used,
    }


EXCHANGES: list[tuple[list[Any], Json, int]] = [
    (ASKED, completion(CALLS, 1), 200),
    (LOOKED, completion(SAID, 2), 200),
    (THANKED, ERROR, 429),
    (THANKED, completion({"role": "assistant", "content": "Twenty."}, 4), 200),
]
"""The messages of each request, its answer, and the status."""


def body(messages: list[Any]) -> Json:
    return {"model": "gpt-4o", "messages": messages, "tools": [TOOL], "temperature": 0.5}


def at(n: int) -> str:
    return f"2026-03-01T09:{n:02}:00.250Z"


def entry(n: int, sent: Json, answer: bytes | Json, status: int = 200, url: str = "", **fields: Any) -> Json:
    """Return an entry of an archive, with secrets in all places that are made for them."""
    text = answer.decode() if isinstance(answer, bytes) else answer
    kind = "text/event-stream" if isinstance(text, str) else "application/json"
    text = text if isinstance(text, str) else json.dumps(text)
    headers = {"Authorization": f"Bearer {SECRETS[0]}", "x-api-key": SECRETS[0], "User-Agent": "curl/8"}
    headers |= {"Cookie": f"session={SECRETS[2]}", "Proxy-Authorization": f"Basic {SECRETS[3]}"}
    given = {"Content-Type": kind, "Set-Cookie": f"session={SECRETS[2]}", "Content-Encoding": "br"}
    request = {
        "method": "POST",
        "url": url or f"https://api.openai.com/v1/chat/completions?key={SECRETS[1]}",
        "headers": [{"name": name, "value": value} for name, value in headers.items()],
        "cookies": [{"name": "session", "value": SECRETS[2]}],
        "queryString": [{"name": "key", "value": SECRETS[1]}],
        "postData": {"mimeType": "application/json", "text": json.dumps(sent)},
    }
    response = {
        "status": status,
        "headers": [{"name": name, "value": value} for name, value in given.items()],
        "content": {"mimeType": kind, "text": text},
    }
    times = {"startedDateTime": at(n), "time": 2_000, "timings": {"send": 1, "wait": 499, "receive": 1_500}}
    return {**times, "request": request, "response": response, **fields}


HAR = [entry(n, body(said), answer, status) for n, (said, answer, status) in enumerate(EXCHANGES)]
PAGE: Json = {
    "startedDateTime": at(0),
    "request": {"method": "GET", "url": f"https://example.com/app?token={SECRETS[2]}"},
    "response": {"status": 200, "content": {"text": "<html>"}},
}


def archive(*entries: Json) -> bytes:
    return json.dumps({"log": {"version": "1.2", "creator": {"name": "x"}, "entries": entries}}).encode()


def payload(n: int, messages: list[Any], answer: Json, status: int) -> Json:
    """Return a call as LiteLLM's loggers get it."""
    made: Json = {"id": f"id-{n}", "trace_id": f"t-{n}", "call_type": "acompletion", "model": "gpt-4o"}
    made |= {"startTime": 1772355600 + 60 * n, "endTime": 1772355602 + 60 * n, "messages": messages}
    made |= {
        "model_parameters": {"tools": [TOOL], "temperature": 0.5, "api_key": SECRETS[0]},
        "status": "success",
    }
    made |= {"metadata": {"user_api_key_hash": SECRETS[3]}, "response": answer, "response_cost": 0.002}
    if status != 200:
        about = {"error_code": str(status), "error_message": answer["error"]["message"]}
        made |= {"status": "failure", "response": {}, "response_cost": 0, "error_information": about}
    return made


def row(n: int, messages: list[Any], answer: Json, status: int) -> Json:
    """Return a call as a row of LiteLLM's spend logs."""
    made = payload(n, messages, answer, status)
    sent = {**body(messages), "metadata": {"user_api_key": SECRETS[3], "user_id": "u"}, "api_key": SECRETS[0]}
    ended = made["response"] if status == 200 else {}
    about = {"error_information": made.get("error_information")} if status != 200 else {}
    times = {"startTime": at(n), "endTime": at(n), "completionStartTime": at(n)}
    return {
        "request_id": made["id"],
        "call_type": "acompletion",
        "api_key": SECRETS[3],
        "spend": 0.002,
        **times,
        "model": "gpt-4o",
        "messages": "{}",
        "response": json.dumps(ended),
        "metadata": about,
        "status": made["status"],
        "proxy_server_request": json.dumps(sent),
    }


def logged(n: int, messages: list[Any], answer: Json, status: int) -> Json:
    """Return a call as Helicone's tool exports it."""
    made: Json = {
        "request_id": f"r-{n}",
        "request_created_at": at(n),
        "response_status": status,
        "delay_ms": 900,
    }
    made |= {"request_body": body(messages), "response_body": answer, "request_path": "/v1/chat/completions"}
    made |= {"request_properties": {"Helicone-Session-Id": "bakery"}, "time_to_first_token": 300}
    return {**made, "costUSD": 0.002, "signed_body_url": f"https://example.com/?sig={SECRETS[3]}"}


def all_of(write: Callable[..., Json]) -> list[Json]:
    return [write(n, *exchange) for n, exchange in enumerate(EXCHANGES)]


def write_archive(folder: Path, entries: list[Any]) -> Path:
    (path := folder / "calls.har").write_bytes(archive(*entries))
    return path


PAYLOADS, LOGGED = all_of(payload), all_of(logged)
FILES = {
    "har": archive(*HAR, PAGE),
    "litellm": "\n".join(map(json.dumps, PAYLOADS)).encode(),
    "litellm-rows": json.dumps({"data": all_of(row)}).encode(),
    "litellm-callback": json.dumps([{"standard_logging_object": each} for each in PAYLOADS]).encode(),
    "helicone": json.dumps(LOGGED[::-1]).encode(),
}
each_file = pytest.mark.parametrize("content", FILES.values(), ids=list(FILES))


def told(log: Log, name: str) -> list[Any]:
    return [entry.event for entry in log[name].entries() if entry.event.kind != "mode_switch"]


@each_file
def test_the_calls_of_a_file_are_one_conversation_with_its_tools_results_and_errors(
    into: Import, content: bytes
) -> None:
    into.file(content, "calls.json")

    (found,) = into.report.conversations
    events = told(into.log, found.name)
    assert [type(event).__name__ for event in events] == [
        *("UserMessage", "AssistantMessage", "ToolResult", "AssistantMessage"),
        *("UserMessage", "LlmError", "AssistantMessage"),
    ]
    asked, calls, looked, said, _, failed, last = events
    assert isinstance(asked, UserMessage)
    assert [isinstance(part, ImagePart) for part in asked.parts] == [False, True]
    assert isinstance(calls, AssistantMessage)
    assert [(made.name, made.arguments) for made in calls.tool_calls] == [("shelf", '{"a":"rye"}')]
    assert isinstance(looked, ToolResult)
    assert (looked.text, looked.call_id, looked.call is not None) == ("12 loaves of rye", "c1", True)
    assert isinstance(said, AssistantMessage)
    assert (said.text, said.model) == ("Twelve of rye.", "gpt-4o")
    assert said.usage is not None
    assert (said.usage.input, said.usage.output) == (200, 10)
    assert isinstance(failed, LlmError)
    assert failed.category == "rate_limited"
    assert last.text == "Twenty."
    card = into.log[found.name].settings().cards[last.agent]
    assert (card.persona, card.model, [tool.name for tool in card.tools or ()]) == (
        *("You are a baker.", "gpt-4o"),
        ["shelf"],
    )


@each_file
def test_no_key_cookie_or_token_of_a_file_is_stored(tmp_path: Path, content: bytes) -> None:
    (folder := tmp_path / "log").mkdir()
    (path := tmp_path / "calls.json").write_bytes(content)
    with stenolog.open(folder / "talks.db") as log:
        report = import_file(log, path)
        stored = [entry.event for name in log.names(archived=True) for entry in log[name].entries()]
        kept = [log.blobs[sha] for sha in log.recorder.blobs.shas()]
    files = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())

    everything = f"{stored} {kept} {files!r} {report}"
    assert [secret for secret in SECRETS if secret in everything] == []


def test_the_original_of_a_recording_is_not_kept(into: Import) -> None:
    with pytest.raises(CallerError, match="may hold keys"):
        into.file(FILES["har"], keep_raw=True)


@each_file
def test_a_renamed_conversation_goes_on_and_a_deleted_one_stays_out(into: Import, content: bytes) -> None:
    into.file(content, "calls.json")
    (found,) = into.report.conversations
    into.log[found.name].rename("bakery")
    renamed = into.file(content, "copy.json").report
    into.log["bakery"].delete()
    deleted = into.file(content, "copy.json").report

    assert [(one.name, one.appended, one.already) for one in renamed.conversations] == [
        ("bakery", 0, found.appended)
    ]
    assert deleted.conversations == []
    assert [left.name for left in deleted.left_out] == [found.name]
    assert into.log.names() == []


def test_an_archive_goes_on_in_the_conversation_of_an_earlier_one(into: Import) -> None:
    into.file(archive(*HAR[:2]), "one.har").file(archive(*HAR[2:]), "two.har")

    assert len(into.log.names()) == 1
    assert [event.text for event in told(into.log, into.log.names()[0])][-1] == "Twenty."


def test_an_archive_has_the_bytes_that_were_sent_and_its_times(into: Import) -> None:
    into.file(FILES["har"], "calls.har")
    (name,) = into.log.names()
    entries = list(into.log[name].entries())
    outcomes = [one.event for one in entries if isinstance(one.event, AssistantMessage | LlmError)]

    found = proofs(entries, blobs=into.log.blobs)
    assert {(proof.outcome, proof.covers) for proof in found} == {("same", "sent")}
    assert [
        (event.first_token_ms, event.duration_ms) for event in outcomes if isinstance(event, AssistantMessage)
    ] == [(500, 2000)] * 3
    assert into.report.conversations[0].ignored == {"GET example.com/app": 1}


def test_a_streamed_answer_keeps_its_signed_thoughts(into: Import) -> None:
    first = anthropic(user("Which loaves are left?"))
    looked = assistant(thought("I look."), call("t1", cmd="ls"))
    second = anthropic(user("Which loaves are left?"), looked, user(result("t1")))
    url = "https://api.anthropic.com/v1/messages?beta=true"
    entries = [
        entry(0, first, said("", call("t1", cmd="ls"), thinking="I look."), url=url),
        entry(1, second, said("Three.", id="msg_2"), url=url),
    ]
    into.file(archive(*entries), "calls.har")

    (name,) = into.log.names()
    _, answer, shown, last = told(into.log, name)
    assert [part.signature for part in answer.parts if isinstance(part, ReasoningPart)] == ["sig+="]
    assert (shown.text, last.text) == ("3 loaves", "Three.")
    assert last.usage.output == 7


def test_an_answer_that_an_archive_lacks_is_an_error_that_says_so(into: Import) -> None:
    lacking = entry(0, body(ASKED), {})
    lacking["response"]["content"] = {"mimeType": "application/json", "size": 120}
    cut = entry(1, body(LOOKED), {}, 0)
    cut["response"] |= {"content": {}, "_error": "net::ERR_CONNECTION_RESET"}
    into.file(archive(lacking, cut), "calls.har")

    failed = [e for name in into.log.names() for e in told(into.log, name) if isinstance(e, LlmError)]
    assert [(error.category, error.message) for error in failed] == [
        ("other", "the answer ended early: the archive does not have it"),
        ("network", "the answer ended early: net::ERR_CONNECTION_RESET"),
    ]


@pytest.mark.parametrize(
    ("content", "lacks"),
    [
        (archive(PAGE), "found GET example.com/app (1)"),
        (
            archive(entry(0, {"text": "hi"}, {}, url="https://chat.example.com/api/messages")),
            "POST chat.example.com",
        ),
        (archive(), "found none"),
        (
            json.dumps([{**row(0, *EXCHANGES[0]), "proxy_server_request": "{}"}]).encode(),
            "store_prompts_in_spend_logs",
        ),
        (json.dumps({**logged(0, *EXCHANGES[0]), "request_body": {}}).encode(), "--include-body"),
    ],
    ids=["no call", "another API", "empty", "litellm", "helicone"],
)
def test_a_file_without_a_call_is_refused_with_what_is_missing(
    into: Import, content: bytes, lacks: str
) -> None:
    with pytest.raises(UnknownFormatError) as refused:
        into.file(content, "calls.json")

    assert lacks in str(refused.value)


@pytest.mark.parametrize("name", ["litellm", "litellm-rows", "helicone"])
def test_the_price_that_a_gateway_states_is_the_price_of_the_answer(into: Import, name: str) -> None:
    into.file(FILES[name], "calls.json")
    answers = [
        e for name in into.log.names() for e in told(into.log, name) if isinstance(e, AssistantMessage)
    ]

    assert [answer.usage and answer.usage.cost for answer in answers] == [2_000, 2_000, 2_000]


def test_a_session_of_helicone_is_a_conversation(into: Import) -> None:
    into.file(FILES["helicone"], "calls.json")

    assert into.log.names() == ["assistant-bakery"]


def test_thoughts_that_litellm_has_in_a_form_of_its_own_are_kept(into: Import) -> None:
    blocks = [{"type": "thinking", "thinking": "I look.", "signature": "c2ln"}]
    message = {
        "role": "assistant",
        "content": "Rye.",
        "reasoning_content": "I look.",
        "thinking_blocks": blocks,
    }
    answer = completion(message, 1)
    answer["usage"] |= {"cache_creation_input_tokens": 40, "prompt_tokens_details": {"cached_tokens": 30}}
    into.records(payload(0, ASKED, answer, 200))

    (name,) = into.log.names()
    (said,) = [event for event in told(into.log, name) if isinstance(event, AssistantMessage)]
    assert [part.signature for part in said.parts if isinstance(part, ReasoningPart)] == ["c2ln"]
    assert said.usage is not None
    assert (said.usage.cache_read, said.usage.cache_write) == (30, 40)


WIRE = sorted((SHARED / "transcripts" / "api_wire").glob("*.jsonl"))


@pytest.mark.parametrize("path", WIRE, ids=lambda path: path.stem)
def test_each_recorded_call_of_a_provider_is_taken_down_once_in_its_bytes(path: Path, into: Import) -> None:
    calls = [json.loads(line) for line in path.read_text().splitlines()]
    entries = [
        entry(n, each["request"], each["response"], each["status"], url=each["uri"])
        for n, each in enumerate(calls)
    ]
    into.file(archive(*entries), "wire.har")
    first, again = into.report, into.file(archive(*entries), "copy.har").report
    entries_of = [list(into.log[name].entries()) for name in into.log.names()]
    found = [proof for each in entries_of for proof in proofs(each, blobs=into.log.blobs)]

    assert first.skipped == again.skipped == []
    assert sum(one.appended for one in again.conversations) == 0
    assert len(found) == len(calls)
    assert {(proof.outcome, proof.covers) for proof in found} == {("same", "sent")}


def test_more_conversations_than_are_taken_up_again_are_known_again(into: Import) -> None:
    failed = [{**payload(n, ASKED, ERROR, 429), "startTime": 1772355600 + 9_000 * n} for n in range(66)]
    into.records(*failed)
    again = into.file(lines(*failed), "copy.jsonl").report

    assert len(into.log.names()) == len(failed)
    assert sum(one.appended for one in again.conversations) == 0
