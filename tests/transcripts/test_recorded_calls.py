"""Recorded calls of models' APIs: HTTP archives, and the logs of LiteLLM and Helicone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, Log, ToolResult, UserMessage
from stenolog.errors import CallerError, UnknownFormatError
from stenolog.importers import import_file
from stenolog.parts import ImagePart, ReasoningPart
from stenolog.projections.requests.proofs import proofs
from tests.file_bytes import words_in
from tests.recording.given import anthropic, assistant, call, result, said, thought, user
from tests.requests.judging import SHARED
from tests.transcripts.given import Import, Json, lines
from tests.transcripts.recorded import (
    ASKED,
    ERROR,
    EXCHANGES,
    FILES,
    HAR,
    LOOKED,
    PAGE,
    PAYLOADS,
    SAID,
    SECRETS,
    TOOL,
    archive,
    body,
    completion,
    entry,
    logged,
    payload,
    row,
)

pytestmark = pytest.mark.usefixtures("sound")
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


def stored(folder: Path, content: bytes) -> str:
    """Return all that an import leaves: the words in the files, and the report."""
    (folder / "log").mkdir()
    (path := folder / "calls.json").write_bytes(content)
    with stenolog.open(folder / "log" / "talks.db") as log:
        report = import_file(log, path)
    return f"{b' '.join(words_in(file) for file in (folder / 'log').iterdir() if file.is_file())!r} {report}"


@each_file
def test_no_key_cookie_or_token_of_a_file_is_stored(tmp_path: Path, content: bytes) -> None:
    everything = stored(tmp_path, content)
    assert [secret for secret in SECRETS if secret in everything] == []


HIDDEN = "hush-hush"
"""A secret that no form betrays."""
UNLISTED = {
    **{f"{word}_{part}": HIDDEN for word in ("acme", "awsSession") for part in ("token", "SECRET")},
    "vertexCredentials": {"type": HIDDEN, "client": {"pw": HIDDEN}},
    "extra_body": {"apiKey": HIDDEN, "list": [{"litellm_params": {"passwords": [HIDDEN]}}]},
    "authorization": HIDDEN,
    "api_base": f"https://models.example.com/v1?zone=eu&access_token={HIDDEN}",
    "mcp_servers": [{"url": f"https://m.example.com/?key={HIDDEN}", "headers": {"X-Shop": HIDDEN}}],
}
KEPT = {
    "max_tokens": 4_321,
    "prompt_cache_key": "the-shelf",
    "tools": [
        {**TOOL, "function": {"name": "sign", "parameters": {"properties": {"token": {"type": "plain"}}}}}
    ],
}


@pytest.mark.parametrize("kind", ["har", "litellm", "litellm-rows", "helicone"])
def test_what_a_name_in_a_request_calls_a_secret_is_not_stored_and_nothing_else_is_lost(
    tmp_path: Path, kind: str
) -> None:
    more: Json = {**UNLISTED, **KEPT}
    answer = completion(SAID, 1)
    given: dict[str, Json] = {
        "har": entry(0, {**body(ASKED), **more}, answer),
        "litellm": {**payload(0, ASKED, answer, 200), "model_parameters": more},
        "litellm-rows": {
            **row(0, ASKED, answer, 200),
            "proxy_server_request": json.dumps({**body(ASKED), **more}),
        },
        "helicone": {**logged(0, ASKED, answer, 200), "request_body": {**body(ASKED), **more}},
    }
    content = archive(given[kind]) if kind == "har" else json.dumps([given[kind]]).encode()
    everything = stored(tmp_path, content)

    assert HIDDEN not in everything
    assert [word for word in ("4321", "the-shelf", "plain", "Which loaves") if word not in everything] == []


def test_a_secret_in_the_words_of_a_recording_is_not_stored(tmp_path: Path) -> None:
    told = [{"role": "user", "content": f"My key is {SECRETS[0]}."}]
    answer = completion({"role": "assistant", "content": f"It is {SECRETS[0]}."}, 1)

    assert SECRETS[0] not in stored(tmp_path, archive(entry(0, body(told), answer)))


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


def test_calls_that_are_the_same_up_to_the_millisecond_keep_both_answers(into: Import) -> None:
    poems = [completion({"role": "assistant", "content": f"Poem {n}"}, 1) for n in range(2)]
    entries = [entry(0, body(ASKED), poem) for poem in poems]
    into.file(archive(*entries), "calls.har")
    again = into.file(archive(*entries), "copy.har").report

    answers = {told(into.log, name)[-1].text for name in into.log.names()}
    assert answers == {"Poem 0", "Poem 1"}
    assert sum(one.appended for one in again.conversations) == 0


def test_an_address_that_cannot_be_read_is_reported_without_the_password_in_it(into: Import) -> None:
    bad = [entry(0, body(ASKED), {}, url=f"https://user:{SECRETS[2]}@exa\u2100mple.com/v1/chat/completions")]
    bad.append(entry(0, body(ASKED), {}, url="https://[api/v1/chat/completions"))
    with pytest.raises(UnknownFormatError, match="url: expected an address") as refused:
        into.file(archive(*bad), "calls.har")
    into.file(archive(*bad, *HAR), "calls.har")

    found = [each.reason for each in into.report.skipped]
    assert ["url: expected" in reason for reason in found] == [True, True]
    assert SECRETS[2] not in f"{refused.value} {into.report}"


def test_a_request_whose_answer_is_no_base64_is_kept_with_the_reason(into: Import) -> None:
    broken = entry(0, body(ASKED), {})
    broken["response"]["content"] |= {"text": "abc", "encoding": "base64"}
    into.file(archive(broken), "calls.har")

    (name,) = into.log.names()
    asked, failed = told(into.log, name)
    assert asked.text.startswith("Which loaves")
    assert "expected base64" in failed.message


HIDDEN_WORDS = "redacted-by-litellm"


@pytest.mark.parametrize("words", [HIDDEN_WORDS, [{"role": "user", "content": HIDDEN_WORDS}]])
def test_messages_that_litellm_redacted_are_nobodys_words(into: Import, words: Any) -> None:
    hidden = payload(7, words, completion({"role": "assistant", "content": HIDDEN_WORDS}, 1), 200)
    with pytest.raises(UnknownFormatError, match="turn_off_message_logging"):
        into.file(lines(hidden), "hidden.jsonl")
    into.records(*PAYLOADS, hidden)

    assert ["turn_off" in each.reason for each in into.report.skipped] == [True]
    assert HIDDEN_WORDS not in str([told(into.log, name) for name in into.log.names()])


def test_a_time_that_no_call_takes_does_not_cost_the_answer(into: Import) -> None:
    endless = {**logged(0, *EXCHANGES[0]), "delay_ms": 10**400, "time_to_first_token": 10**300}
    into.records(endless)

    answer = told(into.log, "assistant-bakery")[-1]
    assert (answer.tool_calls[0].name, answer.duration_ms, answer.first_token_ms) == ("shelf", None, None)


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
