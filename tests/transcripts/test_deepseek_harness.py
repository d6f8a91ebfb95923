"""Sessions of deepseek-harness: each version of the format, and what dsh itself refuses to open."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stenolog import AssistantMessage, ModeSwitch, ToolResult, UserMessage
from stenolog.events import LlmError, Usage
from tests.transcripts.dsh_sessions import SYSTEM, Session, call, text, text_chunks, thought, told_in_all
from tests.transcripts.given import Import

pytestmark = pytest.mark.usefixtures("sound")

VERSIONS = [None, 0, 1, 2, 3, 4]


def imported(into: Import, session: Session) -> list[Any]:
    """Return the events of a session but its settings."""
    return list(into.file(session.bytes(), "session.jsonl").said)


def notes(events: list[Any]) -> list[str]:
    """Return the words of the entries that are out of context."""
    return [event.text for event in events if not event.in_context]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_the_format_tells_the_same_conversation(into: Import, version: object) -> None:
    events = imported(into, told_in_all(version))
    first, answer = events[0], events[2]
    settings = into.conversation.settings()
    card = settings.card_of("dsh")

    assert [type(event) for event in events] == [
        UserMessage, UserMessage, AssistantMessage, ToolResult, ToolResult, AssistantMessage,
    ]  # fmt: skip
    assert [event.text for event in events] == [
        "Which loaves are left?", "Today is Monday.", "A moment.",
        "rye, spelt", "no such file", "Rye and spelt.",
    ]  # fmt: skip
    assert (first.author_kind, events[1].author_kind, events[1].author) == (
        "person",
        "system",
        "time-context",
    )
    assert [call.arguments for call in answer.tool_calls] == ['{"path": "shelf.txt"}', '{"path": "oven.txt"}']
    assert answer.usage == Usage(input=110, output=5, cache_read=100, reasoning=2)
    assert [(event.name, event.is_error) for event in events[3:5]] == [("read", False), ("read", True)]
    assert (card.persona, card.model, [tool.name for tool in card.tools or ()]) == (
        SYSTEM, "deepseek-v4", ["read"],
    )  # fmt: skip
    assert (settings.title, into.conversation.name) == ("Loaves", "s-1")


def test_the_file_of_a_later_version_of_a_session_adds_no_message_to_it(into: Import) -> None:
    imported(into, told_in_all(0))
    messages = len(into.said)
    into.file(told_in_all(3).bytes(), "session.v3.jsonl")

    assert (into.conversation.name, len(into.said)) == ("s-1", messages)


def test_a_version_that_is_not_known_is_a_note_and_the_session_is_read(into: Import) -> None:
    session = told_in_all(3)
    session.lines[0]["version"] = 9
    events = imported(into, session)

    (note,) = notes(events)
    assert note.startswith("this session is in version 9 of dsh's format; versions 0 to 4 are known")
    assert [event.text for event in events if event.in_context][-1] == "Rye and spelt."


def test_a_record_that_is_not_known_is_a_note_that_holds_it_unless_it_may_be_skipped(into: Import) -> None:
    session = told_in_all(0)
    session.add("mood/changed", {"mood": "glad"})
    session.add("mood/seen", {"by": "nobody"}, ignorable=True)
    events = imported(into, session)

    (note,) = [event for event in events if not event.in_context]
    assert "a record of the type 'mood/changed' that is not known: {'mood': 'glad'}" in note.text
    assert note.meta["deepseek-harness"]["record"]["data"] == {"mood": "glad"}
    assert into.report.conversations[0].ignored["mood/seen"] == 1
    assert into.report.conversations[0].decisions == {"unknown record": 1}


def test_a_session_that_lacks_its_head_or_some_records_opens_and_says_so(into: Import) -> None:
    session = told_in_all(0)
    del session.lines[6:8], session.lines[0]
    events = imported(into, session)

    assert notes(events) == ["records 5 to 6 are missing in the file"]
    assert events[-1].text == "Rye and spelt."


def test_what_a_migration_refuses_opens_packed_rows_origins_and_old_descriptors(into: Import) -> None:
    session = Session(0, origin="subagent", parentSession="s-0")
    session.add("permission/preset", {"preset": "code", "origin": "inferred"})
    session.add(
        "subagent/descriptor", {"version": 2, "mode": "one-shot", "provider": "spawn", "label": "Bake"}
    )
    session.user("Bake.", "u1")
    session.packed("Do", "ne", ".")
    session.lines.append(
        {**session.lines[-1], "type": "reasoning-chunks", "seq0": 6, "data": {"texts": ["a"]}}
    )
    session.lines.append(
        {"type": "assistant/message", "seq": 7, "time": 1, "data": {"content": [text("Done.")]}}
    )
    events = imported(into, session)

    assert [event.text for event in events] == ["Bake.", "Done."]
    about: Any = into.settings[0].meta["deepseek-harness"]
    assert (about["parentSession"], about["label"]) == ("s-0", "Bake")


def test_a_session_whose_numbers_were_taken_out_has_those_of_its_order(into: Import) -> None:
    session = Session(0)
    session.header()
    asked = session.user("One", "u1")
    session.user("They counted.", "sum", (asked, asked), kind="plugin", plugin="compact")
    session.user("Go on", "u2")
    for event in session.lines[1:]:
        del event["seq"]
    events = imported(into, session)

    assert [(type(event).__name__, event.text) for event in events] == [
        ("UserMessage", "One"),
        ("AssistantMessage", "They counted."),
        ("UserMessage", "Go on"),
    ]


@pytest.mark.parametrize("version", [0, 3])
def test_a_compaction_is_a_summary_over_the_span_that_it_replaces(into: Import, version: int) -> None:
    session = Session(version)
    session.header()
    first = session.user("One", "u1")
    session.assistant("a1", text("Two"))
    last = session.user("Three", "u2")
    session.add("compaction/summary", {"summary": [text("They counted.")]})
    session.user("They counted.", "sum", (first, last), kind="plugin", plugin="compact")
    session.user("Go on", "u3")
    events = imported(into, session)
    (summary,) = [event for event in events if getattr(event, "purpose", "") == "summary"]
    body = json.dumps(into.conversation.request("dsh", api="openai-chat").body)

    assert summary.text == "They counted."
    assert [words in body for words in ("One", "Two", "Three", "They counted.", "Go on")] == [
        False, False, False, True, True,
    ]  # fmt: skip


def test_a_snapshot_that_replaces_an_earlier_one_hides_it_and_a_shortened_result_its_call_keeps(
    into: Import,
) -> None:
    session = Session(0)
    context: dict[str, Any] = {"kind": "plugin", "plugin": "@deepseek-ai/dsh-system-prompt"}
    old = session.user("It is Monday.", "x1", **context)
    session.user("Read it.", "u1")
    session.assistant("a1", call("c1", "read", "{}"))
    result = session.result("r1", "c1", "a very long text")
    session.user("It is Tuesday.", "x2", (old, old), **context)
    session.result("r2", "c1", "a text")
    session.lines[-1]["surfaceOp"] = {"op": "replace", "start": result, "end": result}
    session.user("And?", "u2")
    events = imported(into, session)
    body = json.dumps(into.conversation.request("dsh", api="openai-chat").body)

    assert [words in body for words in ("Monday", "Tuesday", "a very long text", "And?")] == [
        False, True, False, True,
    ]  # fmt: skip
    assert notes(events) == ["the result of c1 was shortened to: a text"]


def failure(code: str, words: str) -> dict[str, Any]:
    return {"kind": "error", "failure": {"code": code, "message": words}}


def test_a_failed_call_is_one_error_however_many_records_tell_it(into: Import) -> None:
    session = Session(0)
    session.user("Hi", "u1")
    session.add("step/start", {"turn": 1, "step": 1})
    session.chunks("Hel", "lo")
    wrong = {"code": "RATE_LIMIT", "message": "slow down"}
    session.add("assistant/chunk", {"chunk": {"type": "finish", "reason": failure(**_named(wrong))}})
    session.add("llm/retry", {"retry": 1, "delayMs": 500, "failure": wrong})
    session.add("llm/retry-started", {"retry": 1})
    session.add("assistant/chunk", {"chunk": {"type": "finish", "reason": failure("AUTH", "no key")}})
    session.add("step/end", {"turn": 1, "step": 1})
    session.add(
        "turn/end", {"turn": 1, "reason": {"kind": "error", "error": {"code": "AUTH", "message": "no key"}}}
    )
    errors = [event for event in imported(into, session) if isinstance(event, LlmError)]

    assert [(error.category, error.message, error.text) for error in errors] == [
        ("rate_limited", "slow down", "Hello"),
        ("unauthorized", "no key", ""),
    ]
    assert (errors[0].retry_at is not None, errors[1].attempt) == (True, 1)


def _named(wrong: dict[str, str]) -> dict[str, str]:
    return {"code": wrong["code"], "words": wrong["message"]}


def test_an_attempt_of_later_versions_and_a_turn_that_was_stopped_are_errors_too(into: Import) -> None:
    session = Session(3)
    session.user("Hi", "u1")
    stream = [
        *({"type": "chunk", "chunk": chunk} for chunk in text_chunks("Hel")),
        {"type": "text-chunks", "index": 0, "texts": ["l", "o"]},
    ]
    end = {"type": "chunk", "chunk": {"type": "finish", "reason": failure("TIMEOUT", "too late")}}
    session.add("assistant/attempt", {"turn": 1, "step": 1, "stream": [*stream, end]})
    session.add("turn/end", {"turn": 1, "reason": {"kind": "error", "error": {"message": "too late"}}})
    session.user("Again", "u2")
    session.assistant("a1", text("Hel"), interrupted=True)
    session.add("turn/end", {"turn": 2, "reason": {"kind": "aborted", "reason": {"kind": "user"}}})
    events = imported(into, session)

    assert [(type(event).__name__, event.text) for event in events] == [
        ("UserMessage", "Hi"),
        ("LlmError", "Hello"),
        ("UserMessage", "Again"),
        ("AssistantMessage", "Hel"),
        ("LlmError", ""),
    ]
    assert (events[1].category, events[3].finish_reason, events[4].category) == (
        "timeout", "interrupted", "cancelled",
    )  # fmt: skip


def test_an_answer_that_the_file_breaks_off_is_a_note(into: Import) -> None:
    session = Session(0)
    session.user("Hi", "u1")
    session.chunks("Hel", "lo")

    assert notes(imported(into, session)) == ["an answer that the file breaks off: Hello"]


@pytest.mark.parametrize("word", ["code", "ptc"])
def test_the_calls_of_a_program_that_the_model_wrote_have_a_lane_of_their_own(
    into: Import, word: str
) -> None:
    session = Session(3)
    session.user("Count them.", "u1")
    session.assistant("a1", call("c1", "run_code", '{"code": "…"}'))
    ids = {"rootCallId": "c1", "parentCallId": "c1", "subCallId": "c1:code:1", "name": "read"}
    session.add(f"tool/{word}-dispatch-start", {**ids, "arguments": {"path": "shelf.txt"}})
    session.add(f"tool/{word}-dispatch", {**ids, "arguments": {}, "content": [text("rye")], "isError": False})
    session.result("r1", "c1", "1")
    events = imported(into, session)
    inner, result = events[2], events[3]
    body = json.dumps(into.conversation.request("dsh", api="openai-chat").body)

    asked = next(entry.position for entry in into.entries if entry.event == events[1])
    assert (inner.agent, inner.tool_calls[0].arguments) == ("code", '{"path":"shelf.txt"}')
    assert inner.cause == asked
    assert (result.name, result.text) == ("read", "rye")
    assert "shelf.txt" not in body


def test_what_people_type_beside_the_conversation_is_kept_out_of_context(into: Import) -> None:
    session = Session(0)
    queued = {"id": "q1", "role": "user", "content": [text("And the rolls?")], "source": {"kind": "user"}}
    session.add("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [queued]})
    session.user("Hi", "u1")
    session.add("command/run", {"commandId": "k", "name": "compact", "args": " now", "source": "user"})
    session.add("command/done", {"commandId": "k", "kind": "success", "text": "Nothing to compact."})
    session.add("feedback/record", {"text": "Too slow."})
    session.add("plan/mode", {"active": True})
    session.assistant("a1", thought("Hm."), text("Hello."))
    events = imported(into, session)

    assert notes(events) == ["/compact now", "Nothing to compact.", "Too slow.", "And the rolls?"]
    assert into.conversation.settings().mode == "plan"


def test_attachments_are_named_since_their_bytes_stand_beside_the_session(into: Import) -> None:
    session = Session(0)
    session.user("See", "u1")
    picture = {"type": "image", "attachment": {"attachmentId": "sha256:ab", "mediaType": "image/png"}}
    session.lines[-1]["data"]["content"].append(picture)
    (said,) = imported(into, session)

    assert [part.type for part in said.parts] == ["text", "file"]
    assert (said.parts[1].id, said.parts[1].media_type) == ("sha256:ab", "image/png")
    assert isinstance(into.entries[0].event, ModeSwitch)
