"""Sessions of Gemini CLI and Qwen Code: real ones, made by the programs, and what they hold beyond that.

The files in `sessions/` were written by Gemini CLI 0.61.0 and Qwen Code 0.15.10 before a local provider: a
thought, two calls in one answer, a file written, and a second question in the resumed session.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stenolog import AssistantMessage, Conversation, ToolResult
from stenolog.events import ModeSwitch, Usage
from stenolog.importers import import_file
from stenolog.parts import ReasoningPart, TextPart, ToolCall
from tests.transcripts.given import Import, Json

HERE = Path(__file__).parent / "sessions"
FILES = {"gemini": HERE / "gemini-cli.jsonl", "qwen": HERE / "qwen-code.jsonl"}
AT = "2026-01-02T03:04:05.678Z"


def told(conversation: Conversation) -> list[tuple[str, str]]:
    """Return kind and words of the entries, without settings."""
    events = (entry.event for entry in conversation if not isinstance(entry.event, ModeSwitch))
    return [(event.kind, getattr(event, "text", "")) for event in events]


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


def test_a_session_that_grows_line_by_line_is_the_same_conversation(into: Import, tmp_path: Path) -> None:
    written = FILES["gemini"].read_bytes().splitlines(keepends=True)
    import_file(into.log, FILES["gemini"], name="whole")
    for number in range(1, len(written) + 1):
        (file := tmp_path / "grown.jsonl").write_bytes(b"".join(written[:number]))
        assert {found.failed for found in import_file(into.log, file, name="grown").conversations} <= {""}
    whole, grown = into.log["whole"], into.log["grown"]

    calls = [
        [c.id for e in talk if isinstance(e.event, AssistantMessage) for c in e.event.tool_calls]
        for talk in (whole, grown)
    ]
    assert calls[0] == calls[1]
    assert [words for words in told(grown) if words[1]] == [words for words in told(whole) if words[1]]
    assert grown.settings().hides == ()
    assert not any(grown.state().open_calls())


def gemini(**fields: Any) -> Json:
    return {"timestamp": AT, **fields}


HEAD = {"sessionId": "s1", "projectHash": "h", "startTime": AT, "lastUpdated": AT, "kind": "main"}
HI = gemini(id="u1", type="user", content=[{"text": "Hi"}])
HO = gemini(id="g1", type="gemini", content="Ho.", model="gemini-3-pro")
MORE = gemini(id="u2", type="user", content=[{"text": "More"}])
AYE = gemini(id="g2", type="gemini", content="Aye.", model="gemini-3-pro")


def qwen(type: str, uuid: str, parent: str | None, *parts: Json, **fields: Any) -> Json:
    message = {"message": {"role": "user", "parts": list(parts)}} if parts else {}
    base = {"uuid": uuid, "parentUuid": parent, "sessionId": "q1", "timestamp": AT, "type": type}
    return {**base, "cwd": "/home/user/shop", "gitBranch": "main", **message, **fields}
