"""Tools in a loop of one's own: a call is run in one line, and its result is an event."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, Conversation, TextPart, Tool, ToolCall, ToolResult, UserMessage
from stenolog.adapters.tools.functions import ToolLike
from stenolog.errors import CallerError
from stenolog.events import CallRef, Control
from stenolog.parts import ImagePart
from stenolog.tools import (
    BaseTool,
    MCPServer,
    ToolContext,
    ToolOutput,
    open_calls,
    run_call,
    run_call_async,
    run_calls,
    run_calls_async,
    tool,
)
from tests.forked import python

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


def shell(cmd: str) -> str:
    """Run a command."""
    return f"ran {cmd}"


async def look(path: str) -> bytes:
    """Look at a picture."""
    return PNG


def fails() -> str:
    """Fail."""
    raise RuntimeError("no disk")


def longest() -> str:
    """Say a lot."""
    return "word " * 40_000


def key(call: ToolContext) -> str:
    """Tell the idempotency key."""
    return f"{call.key} {call.lane} {call.position}"


TOOLS: list[ToolLike] = [shell, look, fails, longest, key]


@pytest.fixture
def talk() -> Iterator[Conversation]:
    with stenolog.open(":memory:") as log:
        yield log["x"]


def called(talk: Conversation, *calls: ToolCall) -> None:
    talk.append(UserMessage(text="Go"))
    talk.append(AssistantMessage(agent="coder", tool_calls=calls))


def test_a_call_is_run_and_its_result_is_the_event_to_append(talk: Conversation) -> None:
    call = ToolCall(id="c1", name="shell", arguments='{"cmd": "ls"}')
    called(talk, call)

    result = run_call(call, TOOLS)

    assert (result.call_id, result.name, result.text, result.is_error) == ("c1", "shell", "ran ls", False)
    talk.append(result)
    assert talk.state().lane("coder").status == "awaiting_llm"


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("fails", "{}", "RuntimeError: no disk"),
        ("shel", "{}", "there is no tool 'shel'; there are shell"),
        ("shell", '{"command": 1}', "/cmd: expected a value, found none"),
        ("look", '{"path": "a"}', "pass conversation= to run_call"),
    ],
)
def test_what_goes_wrong_is_a_result_too(name: str, arguments: str, said: str) -> None:
    result = run_call(ToolCall(id="c1", name=name, arguments=arguments), TOOLS)

    assert result.is_error
    assert said in result.text


def test_without_a_log_at_hand_a_long_text_is_kept_whole() -> None:
    assert len(run_call(ToolCall(id="c1", name="longest"), TOOLS).text) == 200_000


def test_in_a_conversation_pictures_and_long_texts_are_blobs(talk: Conversation) -> None:
    seen = run_call(ToolCall(id="c1", name="look", arguments='{"path": "a"}'), TOOLS, conversation=talk)
    read = run_call(ToolCall(id="c2", name="longest"), TOOLS, conversation=talk)

    assert isinstance(seen.parts[0], ImagePart)
    assert talk.log.blobs[seen.parts[0].blob] == PNG
    assert len(talk.log.blobs[read.blob]) == 200_000


def test_all_open_calls_of_an_agent_are_run_and_their_results_appended(talk: Conversation) -> None:
    calls = [ToolCall(id="same", name="shell", arguments=f'{{"cmd": "{n}"}}') for n in range(2)]
    called(talk, *calls, ToolCall(id="c3", name="key"))
    talk.append(AssistantMessage(agent="other", tool_calls=[ToolCall(id="o", name="shell")]))

    entries = run_calls(talk, "coder", TOOLS)

    made = talk.entry(3)
    results = [entry.event for entry in entries if isinstance(entry.event, ToolResult)]
    assert [result.text for result in results] == ["ran 0", "ran 1", f"{made.id}:2 coder 3"]
    assert [result.call and result.call.index for result in results] == [0, 1, 2]
    assert run_calls(talk, "coder", TOOLS) == []
    assert [call.id for call in open_calls(talk, "other")] == ["o"]


def test_a_program_that_died_at_a_call_takes_it_up_again(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "a.db") as log:
        called(log["x"], ToolCall(id="c1", name="shell", arguments='{"cmd": "ls"}'))
    with stenolog.open(tmp_path / "a.db") as log:
        (entry,) = run_calls(log["x"], "coder", TOOLS)

    assert isinstance(entry.event, ToolResult)
    assert entry.event.text == "ran ls"


def test_a_call_that_awaits_approval_is_left_alone_and_runs_as_it_was_approved(talk: Conversation) -> None:
    risky = tool(shell, approval=True)
    talk.join("coder", model="m", tools=[risky])
    called(talk, ToolCall(id="c1", name="shell", arguments='{"cmd": "rm"}'))

    assert (run_calls(talk, "coder", [risky]), open_calls(talk, "coder")) == ([], [])
    (call,) = [each for _, each in talk.state().open_calls()]
    named = CallRef(entry=call.entry, index=call.nth)
    talk.submit(UserMessage(control=Control(action="approve", call=named, arguments='{"cmd": "ls"}')))
    (entry,) = run_calls(talk, "coder", [risky])

    assert isinstance(entry.event, ToolResult)
    assert entry.event.parts[-1] == TextPart(text="ran ls")


def test_a_program_with_an_event_loop_runs_calls_without_stopping_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with stenolog.open_async(tmp_path / "a.db") as log:
            talk = log["x"]
            await talk.append(UserMessage(text="Go"))
            calls = [ToolCall(id="c1", name="look", arguments='{"path": "a"}'), ToolCall(id="c2", name="key")]
            await talk.append(AssistantMessage(agent="coder", tool_calls=calls))
            result = await run_call_async(calls[0], TOOLS, conversation=talk)
            assert isinstance(result.parts[0], ImagePart)
            assert len(await run_calls_async(talk, "coder", TOOLS)) == 2
            assert (await talk.state()).lane("coder").status == "awaiting_llm"
            # in a notebook a loop runs already
            assert (
                run_call(ToolCall(id="c9", name="shell", arguments='{"cmd": "ls"}'), TOOLS).text == "ran ls"
            )

    asyncio.run(run())


@pytest.mark.parametrize("given", [[MCPServer.stdio(["none"])], [Tool(name="shell")], [42]])
def test_only_what_can_be_run_at_once_is_taken(given: list[object]) -> None:
    with pytest.raises(CallerError, match="expected"):
        run_call(ToolCall(id="c1", name="shell"), given)  # type: ignore[arg-type]


def test_a_tool_that_must_not_run_twice_is_refused_where_a_crash_would_repeat_it(talk: Conversation) -> None:
    once = tool(shell, repeat="never")
    call = ToolCall(id="c1", name="shell", arguments='{"cmd": "pay"}')
    called(talk, call)

    with pytest.raises(CallerError, match=r'shell: only a Team keeps repeat="never", for run_calls cannot'):
        run_calls(talk, "coder", [once])
    assert talk.state().lane("coder").calls
    assert run_call(call, [once]).text == "ran pay"
    assert len(run_calls(talk, "coder", [tool(shell)])) == 1


class Bell(BaseTool):
    """A tool of a class of its own, which says nothing of `repeat`."""

    spec = Tool(name="shell")

    async def run(self, call: ToolContext) -> ToolOutput:
        return ToolOutput(("rang",))


class OneBell(Bell):
    repeat = "never"


def test_a_tool_of_a_class_that_must_not_run_twice_is_refused_as_a_function_is(talk: Conversation) -> None:
    told = Bell()
    told.repeat = "never"
    called(talk, ToolCall(id="c1", name="shell", arguments="{}"))

    for each in (OneBell(), told):
        with pytest.raises(CallerError, match='shell: only a Team keeps repeat="never"'):
            run_calls(talk, "coder", [each])
    (entry,) = run_calls(talk, "coder", [Bell()])
    assert isinstance(entry.event, ToolResult)
    assert entry.event.text == "rang"


KILLED = """
import os, signal, sys
import stenolog
from stenolog import Tool
from stenolog.tools import BaseTool, ToolContext, ToolOutput, run_calls, tool

def paid(key):
    with open("paid", "a+") as file:
        file.seek(0)
        begun = file.read().split()
        file.write(f"{key}\\n")
    if not begun:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

def pay(call: ToolContext) -> str:
    return paid(call.key)

class Pay(BaseTool):
    spec = Tool(name="pay")
    async def run(self, call):
        return ToolOutput((paid(call.key),))

class PayOnce(Pay):
    repeat = "never"

tools = {"function": pay, "class": Pay(), "told": tool(pay, repeat="never"), "told class": PayOnce()}
with stenolog.open("a.db") as log:
    print(len(run_calls(log["x"], "coder", [tools[sys.argv[1]]])))
"""


@pytest.mark.parametrize(("kind", "runs"), [("function", 2), ("class", 2), ("told", 0), ("told class", 0)])
def test_after_a_kill_a_call_runs_again_unless_its_tool_says_never(
    kind: str, runs: int, tmp_path: Path
) -> None:
    with stenolog.open(tmp_path / "a.db") as log:
        called(log["x"], ToolCall(id="c1", name="pay"))

    ends = [
        subprocess.run(python("-c", KILLED, kind), cwd=tmp_path, capture_output=True, text=True)
        for _ in range(2)
    ]

    keys = (tmp_path / "paid").read_text().split() if runs else []
    assert (len(keys), len(set(keys))) == (runs, min(runs, 1))
    if runs:
        assert [each.returncode for each in ends] == [-signal.SIGKILL, 0]
    else:
        assert all('only a Team keeps repeat="never"' in each.stderr for each in ends)


def test_an_async_loop_refuses_it_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with stenolog.open_async(tmp_path / "a.db") as log:
            await run_calls_async(log["x"], "coder", [tool(shell, repeat="never")])

    with pytest.raises(CallerError, match='only a Team keeps repeat="never"'):
        asyncio.run(run())


def test_a_loop_of_ones_own_appends_the_question_and_runs_the_call_again(tmp_path: Path) -> None:
    def wonder(call: ToolContext[str]) -> str:
        return f"{call.ask_sync('Well?')} {call.deps}"

    with stenolog.open(tmp_path / "t.db") as log:
        conversation = log["demo"]
        conversation.append(AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c1", name="wonder")]))
        tools = [tool(wonder, repeat="safe")]
        [asked] = run_calls(conversation, "coder", tools, deps="deps")
        assert isinstance(asked.event, UserMessage)
        assert run_calls(conversation, "coder", tools) == []
        assert asked.event.control is not None
        said = Control(action="answer", call=asked.event.control.call, answer='"so"')
        conversation.submit(UserMessage(control=said))
        run_calls(conversation, "coder", tools, deps="deps")

        assert conversation[-1].event.text == "so deps"  # type: ignore[union-attr]
    assert "found one without a log" in run_call(ToolCall(id="c1", name="wonder"), tools).text
