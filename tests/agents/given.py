"""Programs to talk with, and what is heard of them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

from stenolog.adapters.agents.command_line import CommandLine
from stenolog.adapters.agents.long_lived import SessionPlace
from stenolog.domain.errors import ModelError
from stenolog.domain.parts import text_of
from stenolog.models import Model, ModelRequest, ModelResponse, Progress, ResponseDelta, StreamItem
from stenolog.projections.requests.transport import Outgoing

T = TypeVar("T")
PROGRAM = Path(__file__).with_name("program.py")
PYTHON = (sys.executable, "-IS")
"""Without the site packages it starts in a third of the time."""
NAME = Path(sys.executable).name
"""What the interpreter is called here: errors name it."""


def program(*args: str) -> tuple[str, ...]:
    """Return the command line of the small agent."""
    return (*PYTHON, str(PROGRAM), *args)


def once(*args: str, **options: Any) -> CommandLine:
    """Return the small agent, run for each request."""
    given: dict[str, Any] = {"patience": 2.0} | options
    return CommandLine(program(*args), **given)


def runs_on(format: str = "text", **options: Any) -> CommandLine:
    """Return the small agent that remembers."""
    given: dict[str, Any] = {"mode": "long-lived", "format": format, "patience": 2.0} | options
    return CommandLine(program(format), **given)


def prompt(text: str, session: str = "", lane: str = "coder", conversation: str = "talk") -> ModelRequest:
    return ModelRequest({"model": "m", "prompt": text}, "key", lane, conversation, session)


async def asked(model: Model, text: str, session: str = "", **where: str) -> ModelResponse:
    """Return the answer."""
    *_, last = await pieces(model, text, session, **where)
    assert isinstance(last, ModelResponse)
    return last


async def pieces(
    model: Model, text: str, session: str = "", **where: str
) -> list[ResponseDelta | ModelResponse]:
    """Return everything that a model streams."""
    async with aclosing(model.stream(prompt(text, session, **where))) as stream:
        return [piece async for piece in stream if not isinstance(piece, Progress | Outgoing)]


async def failed(model: Model, text: str, session: str = "", **where: str) -> tuple[str, ModelError]:
    """Return the text that a model gave before it failed, and its error."""
    said = ""
    try:
        async with aclosing(model.stream(prompt(text, session, **where))) as stream:
            async for piece in stream:
                said += piece.text if isinstance(piece, ResponseDelta) and piece.kind != "act" else ""
    except ModelError as error:
        return said, error
    raise AssertionError(f"it did not fail, and said {said!r}")


async def first(stream: AsyncGenerator[StreamItem, None]) -> str:
    """Return the first that is said."""
    while not isinstance(piece := await anext(stream), ResponseDelta):
        assert isinstance(piece, Progress | Outgoing)
    return piece.text


def words(answer: ModelResponse) -> str:
    return text_of(answer.parts)


def run(work: Callable[..., Awaitable[T]], *models: Model) -> T:
    """Run it with the models, and close them."""

    async def main() -> T:
        try:
            return await work(*models)
        finally:
            for model in models:
                await model.close()

    return asyncio.run(main())


async def killed(model: Any, lane: str = "coder", conversation: str = "talk") -> None:
    """Kill the process of a lane from outside, and wait until it is seen."""
    model._residents.at(SessionPlace(conversation, lane))._process.signal(signal.SIGKILL)
    while model.is_alive(lane, conversation):
        await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Return whether there is such a process that is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pid: int, within: float = 5.0) -> bool:
    """Return whether the process ends; the kernel may take a moment."""
    end = time.monotonic() + within
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not is_running(pid)


def descriptors() -> int:
    """Return the number of open pipes, sockets and the like of this process; a log opens files as needed."""
    names = (Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd"))
    return sum(os.readlink(name).find(":[") > 0 for name in names if name.is_symlink())
