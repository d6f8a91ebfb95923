"""The room on Telegram. What it needs stands in the environment, and a token nowhere else:

TELEGRAM_TOKEN   of one bot that speaks for all; or
TELEGRAM_TOKENS  of a bot for each role: {"Software Developer": "123:…", "Code Reviewer": "456:…"}
TELEGRAM_CHATS   who is heard: ids of chats, such as 123,-1001234. Whoever is not named leaves no trace.
"""

from __future__ import annotations

import json
import os

from stenolog import Log, Team
from stenolog.chats import Telegram


async def on_telegram(team: Team, log: Log, base_url: str | None) -> None:
    """Serve until stopped by Ctrl-C or SIGTERM. The next start goes on where this one has come to."""
    chats = [int(id) for id in os.environ.get("TELEGRAM_CHATS", "").split(",") if id.strip()]
    token = os.environ.get("TELEGRAM_TOKEN", "")
    tokens = json.loads(os.environ.get("TELEGRAM_TOKENS", "{}"))
    if not chats:
        raise SystemExit("TELEGRAM_CHATS: expected the ids of the chats that are heard, found none")
    async with Telegram(team, log, token=token, tokens=tokens, chats=chats, base_url=base_url) as telegram:
        print(f"{telegram!r}: write to it; Ctrl-C ends")
        await telegram.serve()
