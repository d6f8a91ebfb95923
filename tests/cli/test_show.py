"""`show`: an entry for a reader, its words before its proofs, and where to go on from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, TextPart, ToolCall, ToolResult, UserMessage
from stenolog.parts import AssistantPart, ProviderPart, ReasoningPart
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
SIGNATURE = "SIG" * 100
THOUGHT = ReasoningPart(text="First look,\nthen mend.", provider="anthropic", signature=SIGNATURE)


@pytest.fixture
def talk(cli: Cli, tmp_path: Path) -> Cli:
    """Make a talk with two calls in one answer, an id that comes again, and a call without a result."""
    two: list[AssistantPart] = [THOUGHT, *(ToolCall(id=id, name="look", arguments="{}") for id in "ab")]
    again = ToolCall(id="a", name="look", arguments="{}")
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].extend([
            UserMessage(text="Mend it.", to=["coder"]),  # 2
            AssistantMessage(agent="coder", parts=two),  # 3
            ToolResult(call_id="b", text="from b"),  # 4
            ToolResult(call_id="a", text="from a"),  # 5
            AssistantMessage(agent="coder", parts=[TextPart(text="Again."), again]),  # 6
            ToolResult(call_id="a", text="from a again"),  # 7
            AssistantMessage(agent="coder", tool_calls=[again]),  # 8
        ])  # fmt: skip
    return cli


def test_show_has_a_thoughts_words_before_a_short_note_on_its_signature(talk: Cli) -> None:
    shown = talk("show", "x", "3").out

    assert (
        "reasoning\nFirst look,\nthen mend.\nsigned by anthropic (300 characters; --json has them)\n" in shown
    )
    assert SIGNATURE not in shown
    assert SIGNATURE in talk("show", "x", "3", "--json").out


def test_show_has_the_ids_and_digests_below_the_words(talk: Cli) -> None:
    shown = talk("show", "x", "2").out

    assert shown.splitlines()[1] == "to  coder"
    assert shown.index("Mend it.") < shown.index("record\n") < shown.index("digest")


def test_a_call_names_the_position_of_its_result_and_a_result_that_of_its_call(talk: Cli) -> None:
    both = [row for row in talk("show", "x", "3").out.splitlines() if "result" in row]

    assert both == ["result at 5", "result at 4"]
    assert "\ncall at 3/2\n" in talk("show", "x", "4").out
    assert "\ncall at 3\n" in talk("show", "x", "5").out
    assert "\nresult at 7\n" in talk("show", "x", "6").out
    assert "\ncall at 6\n" in talk("show", "x", "7").out
    assert "\nno result yet\n" in talk("show", "x", "8").out


def test_an_erased_entry_says_why_and_when_it_was_erased_and_is_never_unknown(demo: Cli) -> None:
    assert demo("erase", "demo", "4", "--yes", "--reason", "a password").status == 0
    told = "erased (a password, 20"

    for command in ("log", "tail", "timeline", "show", "explain"):
        more = {"show": ["4"], "explain": ["4"], "tail": ["-n", "50", "--timeout", "0.01"]}.get(command, [])
        shown = demo(command, "demo", *more).out
        assert told in shown, command
        assert "unknown" not in shown, command
    called = demo("explain", "call", "demo", "4").out
    assert f"position 4 is {told}" in called
    assert "release does not know" not in called
    for steps in (("state", "demo", "--steps"), ("check", "replay", "demo", "-v")):
        shown = demo(*steps).out
        assert "erased" in shown
        assert "unknown" not in shown


def program_part(provider: str, **fields: object) -> ProviderPart:
    return ProviderPart(provider=provider, raw=json.dumps(fields))


def test_an_act_of_a_program_is_shown_as_a_call_with_its_result(cli: Cli, tmp_path: Path) -> None:
    wrote = {"file_path": "a.py", "content": "one\ntwo"}
    parts: list[AssistantPart] = [
        program_part("claude-code", type="tool_use", id="t1", name="Write", input=wrote),
        TextPart(text="Now I run it."),
        program_part("claude-code", type="tool_use", id="t2", name="Bash", input={"command": "ls"}),
        program_part("claude-code", type="tool_result", tool_use_id="t1", content="written"),
        program_part("codex", type="command_execution", command="pwd", exit_code=1, aggregated_output="no"),
        program_part("codex", type="todo_list", items=["mend it"]),
        program_part("claude-code", type="tool_result", tool_use_id="t0", content="late"),
    ]
    with stenolog.open(tmp_path / "talks.db") as log:
        log["x"].append(AssistantMessage(agent="coder", parts=parts))

    shown = cli("show", "x").out.partition("record\n")[0]

    assert [row for row in shown.splitlines()[2:] if row] == [
        "act",
        "id    t1",
        "name  Write",
        "arguments",
        "  file_path  a.py",
        "  content    one",
        "             two",
        "result: ok",
        "written",
        "text",
        "Now I run it.",
        "act",
        "id    t2",
        "name  Bash",
        "arguments",
        "  command  ls",
        "no result",
        "act",
        "name  command",
        "arguments",
        "  command  pwd",
        "result: failed",
        "no",
        "opaque",
        "provider  codex",
        "type      todo_list",
        "items     mend it",
        "opaque",
        "provider     claude-code",
        "type         tool_result",
        "tool_use_id  t0",
        "content      late",
    ]
