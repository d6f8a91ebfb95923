"""One call of a tool, whatever the tool does: there is an outcome, and it is honest."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

import pytest

from stenolog.adapters.tools import execute as module
from stenolog.adapters.tools.base import BaseTool, ToolContext, ToolOutput
from stenolog.adapters.tools.execute import execute, needs_approval
from stenolog.adapters.tools.functions import tool
from stenolog.domain.errors import ToolError
from stenolog.domain.values import Tool
from tests.tools.given import call, error, outcome, text


class Own(BaseTool):
    """A tool of somebody's own, without any of our care."""

    def __init__(
        self, run: Callable[[ToolContext], Coroutine[Any, Any, Any]], timeout: float | None = None
    ) -> None:
        self.spec = Tool(name="own")
        self.timeout = timeout
        self._run = run

    async def run(self, call: ToolContext) -> ToolOutput:
        found: ToolOutput = await self._run(call)
        return found


@pytest.fixture
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait long for what never ends."""
    monkeypatch.setattr(module, "GRACE", 0.05)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Yield the event that hanging threads wait for; they are released at the end."""
    event = threading.Event()
    yield event
    event.set()


# A tool that is not there


def test_an_unknown_tool_is_answered_with_those_that_there_are_the_nearest_first() -> None:
    found = asyncio.run(execute(None, call("raed_file"), ["write_file", "zip", "read_file", "read_file"]))

    assert found == ToolOutput(("there is no tool 'raed_file'; there are read_file, write_file, zip",), True)


def test_of_many_tools_the_nearest_are_named_and_the_others_counted() -> None:
    known = [f"tool_{n:03}" for n in range(200)]

    said = text(asyncio.run(execute(None, call("tool_007" * 1_000_000), known)))

    assert said.endswith(" and 180 more")
    assert len(said) < 500


def test_where_there_is_no_tool_at_all_that_is_said() -> None:
    assert text(asyncio.run(execute(None, call("x"), []))) == "there is no tool 'x'; there are none"


# Raising


def leave() -> None:
    raise SystemExit(1)


def interrupt() -> None:
    raise KeyboardInterrupt


def stop() -> None:
    raise StopIteration


async def leave_async() -> None:
    raise SystemExit(1)


async def interrupt_async() -> None:
    raise KeyboardInterrupt


async def cancelled_async() -> None:
    raise asyncio.CancelledError


def cancelled() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (leave, "SystemExit: 1"),
        (leave_async, "SystemExit: 1"),
        (interrupt, "KeyboardInterrupt"),
        (interrupt_async, "KeyboardInterrupt"),
        (stop, "RuntimeError: coroutine raised StopIteration"),
        (cancelled, "the tool was cancelled from within"),
        (cancelled_async, "the tool was cancelled from within"),
    ],
)
def test_what_a_tool_raises_is_its_outcome_and_never_the_end_of_the_program(
    function: Callable[[], object], said: str
) -> None:
    assert error(tool(function, name="f")) == said


def test_what_a_tool_of_ones_own_gives_is_checked() -> None:
    async def none(_: ToolContext) -> Any:
        return None

    async def odd(_: ToolContext) -> Any:
        return ToolOutput(("a", 7))  # type: ignore[arg-type]

    assert error(Own(none)) == "expected the tool to give an Outcome, found a NoneType"
    assert error(Own(odd)) == "expected texts and Media of bytes in an Outcome, found a int"


# Hanging


def test_an_async_tool_that_hangs_is_stopped_and_may_have_had_effects() -> None:
    ended = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    said = error(tool(hang, timeout=0.01))

    assert said == "timed out after 0.01 s: the call was cancelled, and may have had effects"
    assert ended == ["ended"]


def test_a_sync_tool_that_hangs_goes_on_in_the_background_and_that_is_said(gate: threading.Event) -> None:
    said = error(tool(gate.wait, name="wait", timeout=0.01))

    assert said == "timed out after 0.01 s: the call goes on in the background, and may still have effects"


def test_the_late_end_of_a_sync_tool_disturbs_nobody(gate: threading.Event) -> None:
    def late() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "tool late"]

    async def main() -> bool:
        found = await execute(tool(gate.wait, name="late", timeout=0.01), call(), [])
        there = len(late())
        gate.set()
        while late():
            await asyncio.sleep(0.001)
        return found.is_error and there == 1

    assert asyncio.run(main()) is True


@pytest.mark.usefixtures("little_grace")
def test_a_tool_that_does_not_let_itself_be_cancelled_is_left_behind() -> None:
    async def main() -> tuple[ToolOutput, int]:
        release = asyncio.Event()

        async def stubborn() -> str:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return "late"

        found = await execute(tool(stubborn, timeout=0.01), call(), [])
        left = len(module._abandoned)
        release.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return found, left - len(module._abandoned)

    found, ended = asyncio.run(main())

    assert text(found).endswith("the call goes on in the background, and may still have effects")
    assert ended == 1


def test_a_tool_that_has_a_result_all_the_same_when_it_is_cancelled_is_heard() -> None:
    async def partial() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "half of it"
        return "all"

    assert outcome(tool(partial, timeout=0.01)) == ToolOutput(("half of it",))


def test_without_a_timeout_a_tool_may_take_its_time() -> None:
    def slow() -> str:
        time.sleep(0.02)
        return "done"

    assert text(outcome(tool(slow, timeout=None))) == "done"


def test_a_process_ends_although_a_tool_hangs_in_it() -> None:
    code = (
        "import asyncio, threading\n"
        "from stenolog.adapters.tools.functions import tool\n"
        "from stenolog.adapters.tools.execute import execute\n"
        "from stenolog.adapters.tools.base import ToolContext\n"
        "hang = tool(threading.Event().wait, name='hang', timeout=0.01)\n"
        "print(asyncio.run(execute(hang, ToolContext('hang', '', '', '', ''), [])).is_error)\n"
    )
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=30, check=True
    )

    assert (found.stdout, found.stderr) == ("True\n", "")


# Cancelling


def test_cancelling_us_cancels_the_tool_and_passes_through() -> None:
    async def main() -> list[str]:
        seen = []
        begun = asyncio.Event()

        async def hang() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("tool")
                raise

        task = asyncio.create_task(execute(tool(hang), call(), []))
        await begun.wait()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            seen.append("us")
        return seen

    assert asyncio.run(main()) == ["tool", "us"]


def test_cancelling_us_gives_what_the_tool_gives_all_the_same() -> None:
    async def main(then: Callable[[], str]) -> ToolOutput | None:
        begun = asyncio.Event()

        async def pay() -> str:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return then()
            return "never"

        task = asyncio.create_task(execute(tool(pay), call(), []))
        await begun.wait()
        task.cancel()
        await asyncio.wait({task})
        return None if task.cancelled() else task.result()

    def fail() -> str:
        raise OSError("closed, since it was cancelled")

    assert asyncio.run(main(lambda: "paid")) == ToolOutput(("paid",))
    assert asyncio.run(main(fail)) is None


def test_what_a_tool_had_given_before_we_are_cancelled_is_what_came_of_it() -> None:
    async def main() -> ToolOutput:
        loop = asyncio.get_running_loop()

        async def fail() -> None:
            loop.call_soon(task.cancel)  # it has ended by then, and we have not heard of it yet
            raise OSError("broken")

        task = asyncio.create_task(execute(tool(fail), call(), []))
        return await task

    assert asyncio.run(main()) == ToolOutput(("OSError: broken",), is_error=True)


def test_cancelling_us_does_not_wait_for_a_thread(gate: threading.Event) -> None:
    async def main() -> bool:
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hang() -> None:
            loop.call_soon_threadsafe(begun.set)
            gate.wait()

        task = asyncio.create_task(execute(tool(hang), call(), []))
        await begun.wait()
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    assert asyncio.run(main()) is True
    assert not gate.is_set()


# Approval


def test_a_person_is_asked_where_the_arguments_say_so_and_in_doubt() -> None:
    def f(force: bool = False) -> None: ...

    def forced(arguments: Mapping[str, Any]) -> bool:
        return bool(arguments["force"])

    asked = tool(f, approval=forced)

    assert [needs_approval(asked, raw) for raw in ('{"force": true}', '{"force": false}')] == [True, False]
    assert [needs_approval(asked, raw) for raw in ("", "{", "[]", "{}", '{"force": NaN}', "[" * 100_000)] == [
        True
    ] * 6
    assert needs_approval(tool(f, approval=True), "{}")
    assert not needs_approval(tool(f), "{}")


def test_where_a_key_stands_twice_who_approves_is_asked_about_the_value_that_the_tool_gets() -> None:
    seen = []

    def pay(amount: int) -> int:
        return amount

    def look(arguments: Mapping[str, Any]) -> bool:
        seen.append(arguments["amount"])
        return True

    asked = tool(pay, approval=look)
    raw = '{"amount": 1, "amount": 500}'

    assert needs_approval(asked, raw) is True
    assert (seen, text(outcome(asked, raw=raw))) == ([500], "500")


def test_a_tool_error_is_told_in_its_own_words() -> None:
    def f() -> None:
        raise ToolError("the shelf is empty; ask for another")

    assert error(tool(f)) == "the shelf is empty; ask for another"
