"""Sessions of GitHub Copilot CLI, `events.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, LlmError, ToolResult, UserMessage
from stenolog.importers import import_file, recognise
from stenolog.parts import ImagePart, ReasoningPart, TextPart
from tests.requests.judging import SHARED
from tests.transcripts.acceptance import (
    Said,
    assert_accepted,
    assert_again_adds_nothing,
    assert_goes_on,
    assert_nothing_lost,
)
from tests.transcripts.given import Import, Json, lines
from tests.transcripts.soundness import assert_sound

HERE = SHARED / "transcripts"
FILES = [
    *sorted((HERE / "copilot_cli").glob("*.jsonl")),
    *sorted((HERE / "agent_sessions_fixtures").glob("*copilot*.jsonl")),
]
needs_samples = pytest.mark.skipif(not FILES, reason="the transcripts are not beside this checkout")
START = {
    "sessionId": "s-1",
    "copilotVersion": "1.0.64",
    "selectedModel": "gpt-x",
    "context": {"cwd": "/home/user/shop", "branch": "main", "headCommit": "abc", "repository": "me/shop"},
}


def session(*events: tuple[str, Json] | tuple[str, Json, Json]) -> list[Json]:
    """Return the records of a session: types and data, each with an id of its number, `e1` first."""
    found = [("session.start", START), *events]
    return [
        {
            "type": kind,
            "data": data,
            "id": f"e{nth}",
            "timestamp": f"2026-01-02T03:04:{nth:02}.000Z",
            "parentId": f"e{nth - 1}" if nth else None,
            **(more[0] if more else {}),
        }
        for nth, (kind, data, *more) in enumerate(found)
    ]


def user(words: str, **fields: Any) -> tuple[str, Json]:
    return "user.message", {"content": words, **fields}


def answer(words: str, *calls: Json, **fields: Any) -> tuple[str, Json]:
    return "assistant.message", {"content": words, "toolRequests": list(calls), "model": "gpt-x", **fields}


def call(id: str, name: str = "bash", **given: Any) -> Json:
    return {"toolCallId": id, "name": name, "arguments": given, "type": "function"}


def result(id: str, words: str = "done", **fields: Any) -> tuple[str, Json]:
    return "tool.execution_complete", {
        "toolCallId": id,
        "success": True,
        "result": {"content": words},
        **fields,
    }


def said_in_copilot(path: Path) -> Iterator[Said]:
    """Yield all that a person, the program, a model or a tool said in a session."""
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        data: Json = record["data"]
        if record["type"] in ("user.message", "system.message", "assistant.message", "system.notification"):
            yield record["type"], data.get("content") or ""
            yield from (
                (name, data.get(name) or "") for name in ("transformedContent",) if not data["content"]
            )
            for name in ("reasoningText", "reasoningOpaque", "encryptedContent"):
                yield name, data.get(name) or ""
            for request in data.get("toolRequests") or ():
                yield "call", request["toolCallId"]
                given = request["arguments"]
                values = given.values() if isinstance(given, dict) else [given]
                yield from (("argument", each) for each in values if isinstance(each, str))
        if record["type"] == "tool.execution_complete":
            yield "result", (data.get("result") or {}).get("content") or ""
            yield "error", (data.get("error") or {}).get("message") or ""
        if record["type"] == "session.error":
            yield "error", data["message"]


def shown(into: Import, *words: str) -> list[bool]:
    """Return which of the words the agent is shown at the end."""
    assert_sound(into.log)
    text = str(into.conversation.request("copilot", api="anthropic").body)
    return [each in text for each in words]


@needs_samples
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name[-20:])
def test_a_real_session_loses_nothing_and_comes_in_once(file: Path) -> None:
    assert recognise(file) == "copilot-cli"
    assert_nothing_lost(file, said_in_copilot(file))
    assert_again_adds_nothing(file)


@needs_samples
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name[-20:])
def test_every_api_accepts_the_requests_of_a_real_session(file: Path, tmp_path: Path) -> None:
    size = file.stat().st_size
    assert_accepted(file, every=20 if size > 100_000 else 1)
    assert_goes_on(file, tmp_path, range(1, size, size // 5))


def test_what_copilot_puts_around_typed_words_is_by_the_system(into: Import) -> None:
    sent = "<current_datetime>now</current_datetime>\n\nHi\n\n<system_reminder>Two tables.</system_reminder>"
    into.records(
        *session(
            ("system.message", {"role": "system", "content": "You are Copilot."}),
            user("Hi", transformedContent=sent),
            answer("Ho.", outputTokens=7, messageId="m1"),
        )
    )
    *asked, said = into.said
    settings = into.conversation.settings()

    assert [
        (event.author_kind, event.text.strip()[:20]) for event in asked if isinstance(event, UserMessage)
    ] == [
        ("system", "<current_datetime>no"),
        ("person", "Hi"),
        ("system", "<system_reminder>Two"),
    ]
    assert isinstance(said, AssistantMessage)
    assert (said.text, said.model, said.source and said.source.id) == ("Ho.", "gpt-x", "m1")
    assert said.usage is not None
    assert said.usage.output == 7
    assert (into.report.conversations[0].name, settings.title) == ("s-1", "Hi")
    assert (settings.card_of("copilot").persona, settings.card_of("copilot").model) == (
        "You are Copilot.",
        "gpt-x",
    )
    about = {"cwd": "/home/user/shop", "branch": "main", "commit": "abc", "repository": "me/shop"}
    assert into.settings[0].meta == {"copilot-cli": {**about, "version": "1.0.64"}}


def test_words_that_the_model_got_in_another_form_are_taken_in_that_form(into: Import) -> None:
    into.records(*session(user("/plan it", transformedContent="Make a plan."), answer("Done.")))

    assert [getattr(event, "text", "") for event in into.said] == ["Make a plan.", "Done."]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "person"),
        ({"source": "user"}, "person"),
        ({"source": "skill-pdf"}, "system"),
        ({"source": "schedule-1"}, "schedule"),
        ({"isAutopilotContinuation": True}, "system"),
    ],
)
def test_a_message_in_the_users_name_tells_who_wrote_it(into: Import, fields: Json, kind: str) -> None:
    into.records(*session(user("Go on.", **fields)))
    (asked,) = into.said

    assert isinstance(asked, UserMessage)
    assert asked.author_kind == kind


def test_a_call_has_its_result_and_a_failed_one_its_error(into: Import) -> None:
    raw = {**call("c2"), "arguments": "{raw", "type": "custom"}
    failed = {"toolCallId": "c2", "success": False, "error": {"message": "no such shell", "code": "x"}}
    into.records(
        *session(
            user("List it."),
            answer("I look.", call("c1", command="ls"), raw),
            ("tool.execution_start", {"toolCallId": "c1", "toolName": "bash", "arguments": {}}),
            result("c1", "a.txt"),
            ("tool.execution_complete", failed),
        )
    )
    said, first, second = into.said[1:]

    assert isinstance(said, AssistantMessage)
    assert [(each.arguments, each.form) for each in said.tool_calls] == [
        ('{"command":"ls"}', ""),
        ("{raw", "custom"),
    ]
    assert isinstance(first, ToolResult)
    assert isinstance(second, ToolResult)
    assert (first.name, first.text, first.is_error) == ("bash", "a.txt", False)
    assert (second.text, second.is_error, second.call is not None) == ("no such shell", True, True)


def test_pictures_are_blobs_wherever_the_session_keeps_their_bytes(into: Import) -> None:
    asset = {"assetId": "sha256:1", "data": "aGk=", "mimeType": "image/png", "byteLength": 2, "type": "image"}
    attached = [
        {"type": "blob", "assetId": "sha256:1", "mimeType": "image/png"},
        {"type": "file", "path": "/x/a.py", "displayName": "a.py"},
    ]
    shot = {"content": "a screen", "binaryResultsForLlm": [{"data": "aG8=", "mimeType": "image/png"}]}
    into.records(
        *session(
            ("session.binary_asset", asset),
            user("See", attachments=attached),
            answer("", call("c1", "screenshot")),
            result("c1", result=shot),
        )
    )
    asked, _, output = into.said

    assert isinstance(asked, UserMessage)
    assert [type(part) for part in asked.parts] == [TextPart, ImagePart]
    assert asked.meta == {"copilot-cli": {"attachments": attached}}
    assert isinstance(output, ToolResult)
    assert [type(part) for part in output.parts] == [TextPart, ImagePart]
    assert shown(into, "a screen") == [True]


def test_reasoning_that_an_answer_repeats_is_there_once(into: Import) -> None:
    into.records(
        *session(
            user("Hi"),
            ("assistant.reasoning", {"reasoningId": "r1", "content": "Hm."}),
            answer("Ho.", reasoningText="Hm.", reasoningOpaque="sig"),
            ("assistant.reasoning", {"reasoningId": "r1", "content": "Hm."}),
            ("assistant.reasoning", {"reasoningId": "r2", "content": "And now?"}),
            ("abort", {"reason": "user_initiated"}),
        )
    )
    said, thought, stopped = into.said[1:]

    assert isinstance(said, AssistantMessage)
    assert said.parts[0] == ReasoningPart(text="Hm.", provider="copilot", signature="sig")
    assert isinstance(thought, AssistantMessage)
    assert thought.parts == (ReasoningPart(text="And now?", provider="copilot"),)
    assert isinstance(stopped, LlmError)
    assert (stopped.category, stopped.message) == ("cancelled", "user_initiated")
    assert_sound(into.log)


def test_reasoning_at_the_end_of_a_file_waits_for_its_answer(into: Import) -> None:
    records = session(
        user("Hi"),
        ("assistant.reasoning", {"reasoningId": "r1", "content": "Hm."}),
        answer("Ho.", reasoningText="Hm."),
    )
    waits = into.records(*records[:3]).report.conversations[0].ignored
    assert waits["reasoning without an answer yet"] == 1
    into.records(*records)
    parts = [part for event in into.said if isinstance(event, AssistantMessage) for part in event.parts]

    assert [type(part) for part in parts] == [ReasoningPart, TextPart]


@pytest.mark.parametrize(
    ("kind", "data", "category"),
    [
        ("session.error", {"errorType": "quota", "message": "no more"}, "budget"),
        ("session.error", {"errorType": "query", "message": "Hm", "statusCode": 429}, "rate_limited"),
        ("model.call_failure", {"errorMessage": "fetch failed"}, "network"),
    ],
)
def test_an_error_has_its_category(into: Import, kind: str, data: Json, category: str) -> None:
    into.records(*session(user("Hi"), (kind, data)))
    failed = into.said[1]

    assert isinstance(failed, LlmError)
    assert failed.category == category


def sub_agent(lane: Json) -> list[Json]:
    """Return a session in which a sub-agent works, whose events name their lane in this way."""
    named = {"toolCallId": "call-00000001", "agentName": "explore", "agentDisplayName": "Explore"}
    inside, outside = ({}, lane) if "agentId" in lane else (lane, {})
    events = (answer("Found two.", **inside), answer("", call("c2", command="ls"), **inside))
    return session(
        user("Look."),
        answer("I ask.", call("call-00000001", "task", prompt="Find all tests.")),
        ("subagent.started", {**named, "model": "small-x"}, outside),
        (*user("Find all tests.", **inside), outside),
        *((*event, outside) for event in events),
        (*result("c2", "a.txt", **inside), outside),
        ("subagent.completed", named),
        result("call-00000001", "There are two."),
        answer("Two."),
    )


@pytest.mark.parametrize("lane", [{"parentToolCallId": "call-00000001"}, {"agentId": "agent-7"}])
def test_a_sub_agent_has_a_lane_of_its_own_begun_by_its_call(into: Import, lane: Json) -> None:
    into.records(*sub_agent(lane))
    name = next(each for each in into.conversation.settings().cards if each.startswith("explore-"))
    brief = next(event for event in into.said if getattr(event, "author_kind", "") == "agent")
    asked = next(e.position for e in into.entries if getattr(e.event, "text", "") == "I ask.")

    assert isinstance(brief, UserMessage)
    assert (brief.text, brief.author, brief.cause, brief.to) == ("Find all tests.", "copilot", asked, (name,))
    assert shown(into, "Found two.", "a.txt", "There are two.", "Two.") == [False, False, True, True]
    own = str(into.conversation.request(name, api="anthropic").body)
    assert [words in own for words in ("Find all tests.", "Found two.", "a.txt", "Look.")] == [
        True,
        True,
        True,
        False,
    ]


TALK = [user("First"), answer("One."), user("Second"), answer("Two.")]
ALL = ("First", "One.", "Second", "Two.", "Third")


def test_a_compaction_is_a_summary_of_what_came_before_it_began(into: Import) -> None:
    done = {"success": True, "summaryContent": "They counted."}
    into.records(
        *session(
            *TALK[:2],
            ("session.compaction_start", {}),
            *TALK[2:],
            ("session.compaction_complete", done),
            user("Third"),
        )
    )

    assert shown(into, *ALL, "They counted.") == [False, False, True, True, True, True]


def test_a_compaction_that_failed_covers_nothing(into: Import) -> None:
    into.records(
        *session(*TALK, ("session.compaction_complete", {"success": False, "error": "no"}), user("Third"))
    )

    assert shown(into, *ALL) == [True] * 5


def test_a_rewind_hides_what_was_removed_and_keeps_it_as_a_fork(into: Import) -> None:
    rewind = ("session.snapshot_rewind", {"upToEventId": "e3", "eventsRemoved": 2})
    into.records(*session(*TALK, rewind, user("Third")))

    assert shown(into, *ALL) == [True, True, False, False, True]
    assert [name for name in into.log if name.startswith("s-1~")]


def test_a_rewind_that_took_the_events_out_of_the_file_hides_them_too(into: Import) -> None:
    before = session(*TALK)
    into.records(*before)
    rewind: Json = {**before[0], "type": "session.snapshot_rewind", "id": "r1"}
    after = [*before[:3], {**rewind, "data": {"upToEventId": "e3"}}, {**before[1], "id": "u9"}]
    after[-1]["data"] = {"content": "Third"}
    into.records(*after)

    assert shown(into, *ALL) == [True, True, False, False, True]
    into.records(*after)
    assert into.report.conversations[0].appended == 0


def test_a_cleared_context_begins_anew(into: Import) -> None:
    into.records(*session(*TALK, ("session.context_cleared", {"messagesCleared": 4}), user("Third")))

    assert shown(into, *ALL) == [False, False, False, False, True]


def test_mode_model_and_title_are_settings(into: Import) -> None:
    into.records(
        *session(
            ("session.model_change", {"newModel": "gpt-y", "reasoningEffort": "high"}),
            ("session.mode_changed", {"newMode": "plan", "previousMode": "interactive"}),
            ("session.title_changed", {"title": "the bell"}),
            user("Hi"),
        )
    )
    settings = into.conversation.settings()

    assert (settings.mode, settings.title, settings.card_of("copilot").model) == ("plan", "the bell", "gpt-y")


def test_bad_records_are_counted_or_skipped_and_stop_nothing(into: Import) -> None:
    bad: list[Json | str] = [
        *session(
            ("user.message", {"content": 7, "attachments": "x"}),
            ("assistant.message", {"content": None, "toolRequests": [None, 7, {"name": "bash"}]}),
            ("tool.execution_complete", {"toolCallId": ["c"], "result": "words", "error": 7}),
            ("session.snapshot_rewind", {"upToEventId": 7}),
            ("subagent.started", {}),
            ("session.compaction_complete", {"summaryContent": 7}),
            user("\ud800 half"),
        ),
        {"type": "user.message", "data": "words", "id": 7, "parentId": 7, "timestamp": 7},
        "{not JSON",
        {},
        *session(user("Still here."))[1:],
        *session(user("Still here."))[1:],
    ]
    into.records(*bad)
    told = [getattr(event, "text", "") for event in into.said]

    assert told[-2:] == ["\ufffd half", "Still here."]
    assert into.report.conversations[0].ignored["repeated record"] == 1
    assert into.report.skipped[0].line == 10
    assert import_file(into.log, into._folder / "talk.jsonl").conversations[0].appended == 0
    assert_sound(into.log)


def test_a_session_that_is_cut_anywhere_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(lines(*sub_agent({"agentId": "agent-7"})))
    (tmp_path / "copy").mkdir()

    assert_accepted(file)
    assert_goes_on(file, tmp_path / "copy", range(1, file.stat().st_size, 101))
