"""Sessions of Gemini CLI and Qwen Code: real ones, made by the programs, and what they hold beyond that.

The files in `sessions/` were written by Gemini CLI 0.61.0 and Qwen Code 0.15.10 before a local provider: a
thought, two calls in one answer, a file written, and a second question in the resumed session.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, Conversation, ToolResult, UserMessage
from stenolog.events import ModeSwitch, Usage
from stenolog.importers import import_file
from stenolog.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from tests.transcripts.given import Import, Json, lines

HERE = Path(__file__).parent / "sessions"
FILES = {"gemini": HERE / "gemini-cli.jsonl", "qwen": HERE / "qwen-code.jsonl"}
AT = "2026-01-02T03:04:05.678Z"


def told(conversation: Conversation) -> list[tuple[str, str]]:
    """Return kind and words of the entries, without settings."""
    events = (entry.event for entry in conversation if not isinstance(entry.event, ModeSwitch))
    return [(event.kind, getattr(event, "text", "")) for event in events]


def only(into: Import, tmp_path: Path, *records: Json) -> Conversation:
    """Import a session of these records, and return its conversation, which is not repeated."""
    file = tmp_path / "session.jsonl"
    file.write_bytes(lines(*records))
    (found,) = import_file(into.log, file).conversations
    assert (found.failed, found.skipped) == ("", [])
    (again,) = import_file(into.log, file, name=found.name).conversations
    assert again.appended == 0
    return into.log[found.name]


@pytest.mark.parametrize("agent", FILES)
def test_a_real_session_is_the_conversation_that_it_was(into: Import, agent: str) -> None:
    (found,) = import_file(into.log, FILES[agent]).conversations
    talk = into.log[found.name]
    kinds = [kind for kind, _ in told(talk)]
    answers = [entry.event for entry in talk if isinstance(entry.event, AssistantMessage)]

    assert kinds[-9:] == [
        "user_message",
        "assistant_message",
        "tool_result",
        "tool_result",
        "assistant_message",
        "tool_result",
        "assistant_message",
        "user_message",
        "assistant_message",
    ]
    assert len(kinds) == (10 if agent == "gemini" else 9)  # the context that Gemini CLI tells at first
    assert [type(part) for part in answers[0].parts] == [ReasoningPart, TextPart, ToolCall, ToolCall]
    assert [call.name for call in answers[0].tool_calls] == ["run_shell_command"] * 2
    assert [answer.text for answer in answers] == ["I look at it.", "", "Done: work please", "Done: And now?"]
    thoughts = 3 if agent == "gemini" else 0
    assert answers[0].usage == Usage(input=120, output=10, cache_read=20, reasoning=thoughts)
    assert (talk.settings().title, found.forks, found.skipped) == ("work please", [], [])
    assert talk.settings().card_of(agent).model.startswith(("gemini-2.5", "qwen3"))
    assert {r.event.call is not None for r in talk if isinstance(r.event, ToolResult)} == {True}


@pytest.mark.parametrize("agent", FILES)
def test_a_session_that_grows_line_by_line_is_the_same_conversation(
    into: Import, tmp_path: Path, agent: str
) -> None:
    written = FILES[agent].read_bytes().splitlines(keepends=True)
    whole = import_file(into.log, FILES[agent], name="whole").conversations[0]
    file = tmp_path / "grown.jsonl"
    for number in range(1, len(written) + 1):
        file.write_bytes(b"".join(written[:number]))
        for found in import_file(into.log, file, name="grown").conversations:
            assert found.failed == ""
    grown = into.log["grown"]

    calls = [
        [c.id for e in talk if isinstance(e.event, AssistantMessage) for c in e.event.tool_calls]
        for talk in (into.log[whole.name], grown)
    ]
    assert calls[0] == calls[1]
    assert [words for words in told(grown) if words[1]] == [w for w in told(into.log[whole.name]) if w[1]]
    assert grown.settings().hides == ()
    assert not any(grown.state().open_calls())


def gemini(**fields: Any) -> Json:
    return {"timestamp": AT, **fields}


HEAD = {"sessionId": "s1", "projectHash": "h", "startTime": AT, "lastUpdated": AT, "kind": "main"}
HI = gemini(id="u1", type="user", content=[{"text": "Hi"}])
HO = gemini(id="g1", type="gemini", content="Ho.", model="gemini-3-pro")
MORE = gemini(id="u2", type="user", content=[{"text": "More"}])
AYE = gemini(id="g2", type="gemini", content="Aye.", model="gemini-3-pro")


def test_a_rewind_hides_the_messages_from_there_on_and_keeps_them_as_a_fork(
    into: Import, tmp_path: Path
) -> None:
    last = gemini(id="u3", type="user", content="Else")
    talk = only(into, tmp_path, HEAD, HI, HO, MORE, AYE, {"$rewindTo": "u2"}, last)
    gone = {entry.position for entry in talk if getattr(entry.event, "text", "") in ("More", "Aye.")}

    assert {p for span in talk.settings().hides for p in range(span.first, span.last + 1)} == gone
    assert [name for name in into.log if name.startswith("s1~")]
    assert "More" not in str(talk.request("gemini", api="gemini").body)


def test_a_compression_is_a_summary_of_all_that_the_new_list_lacks(into: Import, tmp_path: Path) -> None:
    snapshot = gemini(id="s", type="user", content=[{"text": "<state_snapshot>They met.</state_snapshot>"}])
    ack = gemini(id="a", type="gemini", content="Got it.")
    new = {"$set": {"messages": [snapshot, ack, MORE, AYE]}}
    talk = only(into, tmp_path, HEAD, HI, HO, MORE, AYE, new, gemini(id="u3", type="user", content="Else"))
    summary: Any = next(e.event for e in talk if getattr(e.event, "purpose", "") == "summary")
    first = next(entry.position for entry in talk if getattr(entry.event, "text", "") == "Hi")

    assert "They met." in summary.text
    assert summary.covers[0].first == first
    body = str(talk.request("gemini", api="gemini").body)
    assert [words in body for words in ("They met.", "Got it.", "'Hi'", "More", "Aye.", "Else")] == [
        True, False, False, True, True, True,
    ]  # fmt: skip


def test_calls_that_come_after_their_answer_was_imported_are_appended_behind_it(
    into: Import, tmp_path: Path
) -> None:
    result = [{"functionResponse": {"id": "c1", "name": "ls", "response": {"error": "no such file"}}}]
    call = {"id": "c1", "name": "ls", "args": {"dir": "x"}, "result": result, "status": "error"}
    file = tmp_path / "chat.jsonl"
    file.write_bytes(lines(HEAD, HI, HO))
    import_file(into.log, file)
    file.write_bytes(lines(HEAD, HI, HO, {**HO, "toolCalls": [call]}, MORE))
    (found,) = import_file(into.log, file).conversations
    talk = into.log[found.name]

    made: list[Any] = [e.event for e in talk if isinstance(e.event, AssistantMessage | ToolResult)]
    assert [type(event) for event in made] == [AssistantMessage, AssistantMessage, ToolResult]
    assert (made[1].tool_calls[0].arguments, made[2].text, made[2].is_error) == (
        '{"dir":"x"}',
        "no such file",
        True,
    )
    assert import_file(into.log, file, name=found.name).conversations[0].appended == 0


def test_a_document_of_an_earlier_release_is_read_too(into: Import, tmp_path: Path) -> None:
    file = tmp_path / "session-2025.json"
    info = gemini(id="i1", type="info", content="Update available")
    picture = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    asked = gemini(id="u9", type="user", content=[{"text": "See"}, picture])
    seen = gemini(id="m9", type="model", parts=[{"text": "Seen."}])
    file.write_text(json.dumps({**HEAD, "messages": [HI, info, HO, asked, seen]}, indent=2))
    report = import_file(into.log, file)
    talk = into.log[report.conversations[0].name]

    assert (report.format, report.conversations[0].ignored) == ("gemini-cli-json", {"info": 1})
    assert [words for _, words in told(talk)] == ["Hi", "Ho.", "See", "Seen."]
    assert [type(part) for part in getattr(talk[-2].event, "parts", ())] == [TextPart, ImagePart]
    assert import_file(into.log, file, name=talk.name).conversations[0].appended == 0


def qwen(type: str, uuid: str, parent: str | None, *parts: Json, **fields: Any) -> Json:
    message = {"message": {"role": "user", "parts": list(parts)}} if parts else {}
    base = {"uuid": uuid, "parentUuid": parent, "sessionId": "q1", "timestamp": AT, "type": type}
    return {**base, "cwd": "/home/user/shop", "gitBranch": "main", **message, **fields}


QWEN = [
    qwen("user", "1", None, {"text": "Hi"}),
    qwen("assistant", "2", "1", {"text": "Ho."}, model="qwen3"),
    qwen("user", "3", "2", {"text": "More"}),
    qwen("assistant", "4", "3", {"text": "Aye."}, model="qwen3"),
]


def test_a_record_that_follows_an_earlier_one_leaves_what_came_since(into: Import, tmp_path: Path) -> None:
    rewind = qwen("system", "5", "2", subtype="rewind", systemPayload={"truncatedCount": 2})
    talk = only(into, tmp_path, *QWEN, rewind, qwen("user", "6", "5", {"text": "Else"}))
    body = str(talk.request("qwen", api="openai-chat").body)

    assert [words in body for words in ("Hi", "Ho.", "More", "Aye.", "Else")] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert [name for name in into.log if name.startswith("q1~")]


def test_a_compressed_history_is_a_summary_of_what_it_does_not_repeat(into: Import, tmp_path: Path) -> None:
    history = [
        {"role": "user", "parts": [{"text": "They met."}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
        *({"role": "user", "parts": record["message"]["parts"]} for record in QWEN[2:]),
    ]
    compression = qwen(
        "system", "5", "4", subtype="chat_compression", systemPayload={"compressedHistory": history}
    )
    talk = only(into, tmp_path, *QWEN, compression, qwen("user", "6", "5", {"text": "Else"}))
    body = str(talk.request("qwen", api="openai-chat").body)

    assert [words in body for words in ("They met.", "Got it.", "Hi", "More", "Aye.", "Else")] == [
        True, False, False, True, True, True,
    ]  # fmt: skip


def test_a_title_a_schedule_and_a_failed_call_are_what_they_are(into: Import, tmp_path: Path) -> None:
    call = {"functionCall": {"id": "c1", "name": "ls", "args": {}}}
    failed = {"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "late"}}}
    talk = only(
        into,
        tmp_path,
        qwen("user", "1", None, {"text": "Wake up"}, subtype="cron"),
        qwen("assistant", "2", "1", call, model="qwen3"),
        qwen("tool_result", "3", "2", failed, toolCallResult={"callId": "c1", "status": "error"}),
        qwen("system", "4", "3", subtype="custom_title", systemPayload={"customTitle": "the bell"}),
        qwen("user", "5", "4", {"text": "Well?"}),
    )
    first = next(entry.event for entry in talk if isinstance(entry.event, UserMessage))
    (result,) = [entry.event for entry in talk if isinstance(entry.event, ToolResult)]

    assert (first.author_kind, result.is_error, talk.settings().title) == ("schedule", True, "the bell")


def test_an_answer_whose_thoughts_and_words_are_two_records_of_one_id_is_whole(
    into: Import, tmp_path: Path
) -> None:
    thought = qwen("assistant", "5", "4", {"text": "Hm.", "thought": True})
    words = qwen("assistant", "5", "4", {"text": "It is the clock."}, model="qwen3")
    talk = only(into, tmp_path, *QWEN, thought, words, qwen("user", "6", "5", {"text": "Thanks."}))
    answers = [entry.event for entry in talk if isinstance(entry.event, AssistantMessage)]
    assert [type(part) for answer in answers[2:] for part in answer.parts] == [ReasoningPart, TextPart]
    assert [kind for kind, _ in told(talk)][-1] == "user_message"
