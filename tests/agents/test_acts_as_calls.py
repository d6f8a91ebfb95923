"""The tool calls of command-line agents as calls with results: in the timeline, the log, and the counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, UserMessage
from stenolog.adapters.agents.answer_buffer import ResponseBuilder
from stenolog.adapters.agents.output_formats import OUTPUT_FORMATS
from stenolog.adapters.agents.output_parser import LinesParser
from stenolog.domain.parts import ProviderPart
from stenolog.domain.values import Usage
from stenolog.errors import ModelError
from stenolog.models import ModelResponse
from stenolog.projections.views.acts import Act, acts
from stenolog.projections.views.usage import usage
from tests.command_line import run

GEMINI = (
    {"type": "init", "session_id": "s1", "model": "auto"},
    {"type": "message", "role": "user", "content": "RUN"},
    {"type": "message", "role": "assistant", "content": "I run it.", "delta": True},
    {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "t1", "parameters": {"command": "ls"}},
    {"type": "tool_result", "tool_id": "t1", "status": "success", "output": "a.py"},
    {"type": "message", "role": "assistant", "content": "do", "delta": True},
    {"type": "message", "role": "assistant", "content": "ne", "delta": True},
    {
        "type": "result",
        "status": "success",
        "stats": {
            "total_tokens": 330,
            "input_tokens": 300,
            "output_tokens": 21,
            "cached": 40,
            "models": {"gemini-flash": {"output_tokens": 1}, "gemini-pro": {"output_tokens": 20}},
        },
    },
)


def assistant(id: str, *content: dict[str, Any]) -> dict[str, Any]:
    """Return a line of Qwen Code with a whole message."""
    counted = {"input_tokens": 100, "output_tokens": 7, "cache_read_input_tokens": 20}
    said = {"id": id, "role": "assistant", "model": "qwen3", "content": list(content), "usage": counted}
    return {"type": "assistant", "session_id": "s1", "parent_tool_use_id": None, "message": said}


CALL = {"type": "tool_use", "id": "c1", "name": "run_shell_command", "input": {"command": "ls"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": "no such file"}
QWEN = (
    {"type": "system", "subtype": "init", "session_id": "s1", "model": "qwen3"},
    assistant("m1", CALL),
    {"type": "user", "session_id": "s1", "message": {"role": "user", "content": [RESULT]}},
    assistant("m2", {"type": "text", "text": "done"}),
    {
        "type": "result",
        "subtype": "success",
        "session_id": "s1",
        "is_error": False,
        "result": "done",
        "usage": {"input_tokens": 900, "output_tokens": 900},
    },
)


def answered(format: str, *lines: dict[str, Any]) -> ModelResponse:
    parser = LinesParser(ResponseBuilder(format), OUTPUT_FORMATS[format].read)
    parser.feed("".join(f"{json.dumps(line)}\n" for line in lines).encode())
    assert parser.turn.ended
    return parser.turn.answer


def test_gemini_cli_says_its_words_its_calls_its_session_and_what_it_used() -> None:
    answer = answered("gemini-cli", *GEMINI)

    said = AssistantMessage(agent="dev", parts=answer.parts)
    assert (said.text, answer.session, answer.model) == ("I run it.\ndone", "s1", "gemini-pro")
    assert answer.usage == Usage(input=300, output=30, cache_read=40)
    assert acts(answer.parts) == [Act("t1", "run_shell_command", '{"command":"ls"}', "ok", "a.py")]


def test_gemini_cli_that_fails_says_why() -> None:
    failed = {"type": "result", "status": "error", "error": {"type": "Fatal", "message": "no quota"}}
    with pytest.raises(ModelError, match="no quota"):
        answered("gemini-cli", GEMINI[0], failed)


def test_qwen_code_counts_each_of_its_own_calls_once_and_not_its_whole_session() -> None:
    answer = answered("qwen-code", *QWEN)

    said = AssistantMessage(agent="dev", parts=answer.parts)
    assert (said.text, answer.session, answer.model) == ("done", "s1", "qwen3")
    assert answer.usage == Usage(input=200, output=14, cache_read=40)
    assert acts(answer.parts) == [
        Act("c1", "run_shell_command", '{"command":"ls"}', "failed", "no such file")
    ]


CODEX = {
    "id": "item_1",
    "type": "command_execution",
    "command": "pytest",
    "aggregated_output": "1 failed",
    "exit_code": 1,
    "status": "failed",
}
ACP = {"toolCallId": "t1", "title": "Read a.py", "kind": "read", "status": "completed", "content": []}


@pytest.mark.parametrize(
    ("provider", "thing", "act"),
    [
        ("codex", CODEX, Act("item_1", "command", '{"command":"pytest"}', "failed", "1 failed")),
        ("acp", ACP, Act("t1", "Read a.py", "{}", "ok")),
        ("claude-code", CALL, Act("c1", "run_shell_command", '{"command":"ls"}', "no result")),
    ],
)
def test_calls_of_other_agents_are_read_from_their_own_form(
    provider: str, thing: dict[str, Any], act: Act
) -> None:
    assert acts([ProviderPart(provider=provider, raw=json.dumps(thing))]) == [act]
    assert acts([ProviderPart(provider="openai", raw=json.dumps(thing))]) == []


def test_timeline_log_and_counts_have_the_calls_that_an_agent_ran_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "talks.db"
    parts = tuple(ProviderPart(provider="qwen-code", raw=json.dumps(thing)) for thing in (CALL, RESULT))
    with stenolog.open(db) as log:
        conversation = log["talk"]
        conversation.append(UserMessage(text="Look"))
        conversation.append(LlmError(agent="dev", category="process_exited", message="signal 9", parts=parts))
        conversation.append(AssistantMessage(agent="dev", parts=answered("gemini-cli", *GEMINI).parts))
        cards = [(i.position, i.detail, i.status) for i in conversation.timeline() if i.kind == "tool"]
        total = usage(conversation.entries()).total

    assert cards == [(3, "run_shell_command", "failed"), (4, "run_shell_command", "ok")]
    assert (total.tools, total.tool_errors) == (2, 1)
    assert run(["timeline", "talk", "--db", str(db)]) == 0
    shown = capsys.readouterr().out
    assert ("✓ run_shell_command ls" in shown, "a.py" in shown) == (True, True)
    assert run(["explain", "talk", "4", "--db", str(db)]) == 0
    capsys.readouterr()
    assert run(["log", "talk", "--db", str(db)]) == 0
    logged = capsys.readouterr().out
    assert ("→ run_shell_command: ls" in logged, "opaque" in logged) == (True, False)
