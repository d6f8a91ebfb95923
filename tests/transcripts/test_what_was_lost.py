"""Words that stand in unusual places of a session, and that the model was or was not sent."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, UserMessage
from stenolog.errors import UnknownFormatError
from stenolog.importers import files_in, import_file
from stenolog.parts import ReasoningPart, TextPart
from tests.transcripts.given import (
    Import,
    Json,
    assistant,
    item,
    message,
    meta,
    record,
    screen,
    text,
    tool_result,
    tool_use,
    user,
)
from tests.transcripts.opencode_given import TABLES

REFUSED = record(
    "system",
    "s",
    "a",
    subtype="model_refusal_fallback",
    apiRefusalCategory="cyber",
    apiRefusalExplanation="Refused for policy reasons.",
    retractedMessageUuids=["a"],
)


def test_an_answer_that_a_refusal_took_back_is_not_sent_and_the_reason_is_kept(into: Import) -> None:
    into.records(
        user("u", None, "Go"),
        assistant("a", "u", text("Taken back"), tool_use("t")),
        user("r", "a", [tool_result("t", "rows")]),
        REFUSED,
        assistant("b", "s", text("The other model's")),
        user("v", "b", "And?"),
    )
    sent = json.dumps(into.conversation.request("claude", api="anthropic").body)

    (error,) = [event for event in into.said if isinstance(event, LlmError)]
    assert (error.category, error.message) == ("refused", "cyber: Refused for policy reasons.")
    assert not any(words in sent for words in ("Taken back", "rows"))
    assert "The other model's" in sent
    assert into.conversation.state().anomalies == 0


def test_a_message_that_is_a_text_is_read(into: Import) -> None:
    into.records(user("u", None, "Go"), record("user", "v", "u", message="Plain"))

    assert [event.text for event in into.said if isinstance(event, UserMessage)] == ["Go", "Plain"]


def test_what_streamed_before_an_interruption_is_in_its_error(into: Import) -> None:
    reasoning = item("reasoning", summary=[{"type": "summary_text", "text": "Old thought"}])
    into.records(
        meta(),
        message("user", "Fix it"),
        screen("agent_reasoning", text="Old thought"),
        reasoning,
        message("assistant", "Said"),
        screen("agent_message", message="Said"),
        screen("agent_reasoning", text="New thought"),
        screen("agent_message", message="I begin"),
        screen("turn_aborted", reason="interrupted"),
        message("user", "Go on"),
    )

    (error,) = [event for event in into.said if isinstance(event, LlmError)]
    assert error.parts == (ReasoningPart(text="New thought", provider="openai"), TextPart("I begin"))


def test_the_words_of_an_error_may_be_one_level_deeper(into: Import) -> None:
    into.records(meta(), message("user", "Hi"), screen("error", error={"message": "overloaded"}))

    (error,) = [event for event in into.said if isinstance(event, LlmError)]
    assert error.message == "overloaded"


def test_messages_of_gemini_cli_without_ids_are_known_by_their_places(into: Import) -> None:
    said = [{"type": "user", "content": "hello"}, {"type": "gemini", "content": "Hi", "model": "gemini-x"}]
    chat = {"sessionId": "s", "projectHash": "h", "messages": said}
    into.file(json.dumps(chat).encode(), "chat.json")
    grown = {**chat, "messages": [*said, {"type": "user", "content": "And?"}]}
    (into._folder / "chat.json").write_text(json.dumps(grown))

    assert import_file(into.log, into._folder / "chat.json").conversations[0].appended == 1
    assert [getattr(event, "text", "") for event in into.said] == ["hello", "Hi", "And?"]
    assert any(isinstance(event, AssistantMessage) for event in into.said)


def test_a_prompt_beside_the_messages_of_a_document_is_the_persona(into: Import) -> None:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    into.file(json.dumps({"system_prompt": "Be brief.", "messages": said}).encode(), "hermes.json")

    assert into.conversation.settings().cards["assistant"].persona == "Be brief."


@pytest.mark.parametrize(
    "lines",
    [
        [
            {"type": "message.received", "text": "Hi"},
            {"type": "llm.input", "messages": [{"role": "user", "content": "Hi"}]},
        ],
        [
            {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "Hi"}},
            {"type": "tool", "sessionId": "s", "tool_output": "rows"},
        ],
    ],
)
def test_lines_of_one_program_are_not_taken_for_those_of_another(
    into: Import, lines: list[dict[str, object]]
) -> None:
    with pytest.raises(UnknownFormatError, match=r"telemetry|normalised logs"):
        into.records(*lines)


def test_a_folder_of_a_program_gives_its_databases_and_passes_over_its_settings(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"theme": "dark"}')
    (tmp_path / "projects.json").write_text("{}")
    sqlite3.connect(tmp_path / "cache.db").close()
    with stenolog.open(tmp_path / "own.db") as log:
        log["x"].append(UserMessage("Hi"))
    with closing(sqlite3.connect(tmp_path / "opencode.db")) as database:
        database.executescript(TABLES)
    passed: list[Path] = []

    assert [path.name for path in files_in(tmp_path, passed_over=passed.append)] == ["opencode.db"]
    assert {"settings.json", "projects.json"} <= {path.name for path in passed}


def test_an_observation_that_a_request_of_swe_agent_leaves_out_is_left_out_from_there_on(
    into: Import,
) -> None:
    call = {"function": {"name": "bash", "arguments": "{}"}, "type": "function"}
    history: list[Json] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Mend it"}]
    for nth in range(3):
        history += [
            {"role": "assistant", "content": f"Step {nth}", "tool_calls": [{**call, "id": f"c{nth}"}]},
            {"role": "tool", "content": f"output {nth}", "tool_call_ids": [f"c{nth}"]},
        ]
    elided = {"role": "tool", "content": "Old environment output: (1 lines omitted)"}
    queries = [history[:2], history[:4], [*history[:3], elided, *history[4:6]]]
    steps = [
        {"action": "", "response": f"Step {nth}", "observation": f"output {nth}", "query": query}
        for nth, query in enumerate(queries)
    ]
    into.file(json.dumps({"history": history, "trajectory": steps}).encode(), "run.traj")
    third = next(entry.position for entry in into.entries if getattr(entry.event, "text", "") == "Step 2")
    before, after = (
        json.dumps(into.conversation.request("swe-agent", at).body) for at in (third - 2, third - 1)
    )

    assert "output 0" in before
    assert "output 0" not in after
    assert "output 1" in after
