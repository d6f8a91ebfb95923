"""Nothing that is stored can drive the terminal it is shown on."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog.adapters.conversation.log import open as open_log
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import ToolCall
from stenolog.projections.terminal_text import one_line, safe, safe_json

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\u2066\r\x00\x7f [red]bold[/red] :smile:"
OBEYED = {"Cc", "Cs"}
TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def obeyed(text: str) -> set[str]:
    """Return the characters of a text that a terminal might obey."""
    return {
        char
        for char in text
        if char not in "\n\t"
        if unicodedata.category(char) in OBEYED or unicodedata.bidirectional(char) in TURNING
    }


@given(st.text(st.characters()))
def test_no_character_that_a_terminal_obeys_gets_through(text: str) -> None:
    assert obeyed(safe(text)) == set()
    assert obeyed(one_line(text)) == set()


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_is_made_safe_without_a_change_to_the_data(data: object) -> None:
    text = safe_json(data)

    assert obeyed(text) == set()
    assert json.loads(text) == data


def test_ordinary_text_stays_what_it_is() -> None:
    text = "Grüße, 世界 👋🏽 שלום\n\tif x < 1:  # é"

    assert safe(text) == text


@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("log", "talk"),
        ("log", "talk", "--json"),
        ("show", "talk", "2"),
        ("show", "talk", "2", "--raw"),
        ("show", "talk", "3"),
        ("timeline", "talk"),
        ("request", "talk", "--agent", "a"),
        ("request", "talk", "--agent", "a", "--api", "anthropic", "--json"),
        ("state", "--steps", "talk"),
        ("state", "talk"),
        ("check", "replay", "talk"),
        ("outputs", "talk"),
        ("outputs", "talk", "@state/logs/tool-results/hostile.json"),
        ("log", HOSTILE.replace("\x00", "")),
    ],
)
def test_a_hostile_conversation_is_shown_unarmed(cli: Callable[..., Any], command: tuple[str, ...]) -> None:
    with open_log("talks.db") as log:
        conversation = log["talk"]
        conversation.append(ModeSwitch(mode="chat", title=HOSTILE, joins=("a",)))
        conversation.append(UserMessage(text=HOSTILE, author=HOSTILE))
        call = ToolCall(id=HOSTILE, name=HOSTILE, arguments=HOSTILE)
        conversation.append(AssistantMessage(agent="a", text=HOSTILE, tool_calls=[call]))
        result = ToolResult(call_id=HOSTILE, name=HOSTILE, text=HOSTILE, is_error=True)
        conversation.append(result, id="hostile")
        conversation.append(LlmError(agent="a", category="other", message=HOSTILE, text=HOSTILE))

    ran = cli(*command, "--color", "never")

    assert obeyed(ran.out + ran.err) == set()


def test_stored_text_is_never_read_as_markup(cli: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(UserMessage(text="[red]bold[/red] :smile:"))

    assert cli("show", "talk", "2", "--raw").out == "[red]bold[/red] :smile:\n"
    assert "[red]bold[/red] :smile:" in cli("log", "talk").out
