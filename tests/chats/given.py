"""What the tests of chats are given: a log, a team by a function, a served stand-in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from stenolog import Agent, Log, Team, UserMessage
from stenolog.contrib.telegram import Telegram
from stenolog.models import ModelRequest, Scripted

from .standin import TOKEN, StandIn

BOT, ROLE = 123456, 654321
OTHER = "654321:BBQ-secret-of-the-other"


def at_once(failures: int) -> float:
    """Return no time to wait in tests."""
    return 0.01


def asked(prompt: ModelRequest) -> str:
    """Return the last question, without its frame."""
    content = next(m["content"] for m in reversed(prompt.body["messages"]) if m["role"] == "user")
    return str(content).replace('<message sender="Ann Lee">\n', "").replace("\n</message>", "")


def echo(prompt: ModelRequest) -> str:
    """Return an answer that repeats what was asked."""
    return f"you said {asked(prompt)}"


def team(reply: Callable[[ModelRequest], object] = echo, *names: str, **options: Any) -> Team:
    """Return a team of agents that answer by a function."""
    models = {name: Scripted(reply, endless=True, piece=5000) for name in names or ("coder",)}
    return Team([Agent(name, llm=model) for name, model in models.items()], **options)


@asynccontextmanager
async def served(api: StandIn, who: Team, log: Log, **options: Any) -> AsyncGenerator[Telegram, None]:
    """Serve Telegram by the stand-in until the block ends."""
    options = {"token": TOKEN, "chats": [1], "poll": 1, "backoff": at_once, **options}
    if "tokens" in options:
        del options["token"]
    async with Telegram(who, log, base_url=api.url, **options) as telegram:
        serving = asyncio.create_task(telegram.serve())
        try:
            yield telegram
        finally:
            telegram.stop()
            await serving


async def until(there: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not there():
            await asyncio.sleep(0.005)


def said(log: Log, name: str = "telegram-1") -> list[UserMessage]:
    """Return the messages of a conversation that say something."""
    return [e.event for e in log[name].entries() if isinstance(e.event, UserMessage) and e.event.parts]


def run(api: StandIn, log: Log, count: int, who: Team | None = None, **options: Any) -> list[str]:
    """Serve until so many messages have arrived, all is confirmed and all have come to rest; their texts."""

    async def main() -> None:
        async with served(api, who or team(), log, **options) as telegram:
            await until(lambda: len(api.sent) >= count and not api.unconfirmed())
            await telegram.drain()

    asyncio.run(main())
    return api.texts()
