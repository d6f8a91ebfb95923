"""A program with bots, as one would write it: it is started, killed and started again by the tests.

python -m tests.chats.program DATABASE URL CHAT...
"""

from __future__ import annotations

import asyncio
import sys

import stenolog
from stenolog import Agent, Team
from stenolog.contrib.telegram import Telegram
from stenolog.models import ModelRequest, Scripted

from .standin import TOKEN

BLOCKS = 5
"""An answer has so many blocks of code."""


def answer(prompt: ModelRequest) -> str:
    """Return a long answer to what was asked, made of that alone."""
    asked = next(m["content"] for m in prompt.body["messages"] if m["role"] == "user")
    code = ("```python\n" + f"x{nth} = 1\n" * 400 + "```" for nth in range(BLOCKS))
    return "\n".join([f"{asked}:", *code])


async def main(path: str, url: str, chats: list[int]) -> None:
    """Serve until told to stop."""
    team = Team([Agent("coder", llm=Scripted(answer, endless=True, piece=400, pause=0.005))])
    with stenolog.open(path) as log:
        bots = Telegram(team, log, token=TOKEN, chats=chats, base_url=url, poll=1, backoff=lambda _: 0.01)
        async with bots:
            await bots.serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], [int(chat) for chat in sys.argv[3:]]))
