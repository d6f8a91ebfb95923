"""The room on Telegram. What it needs stands in the environment, and a token nowhere else:

TELEGRAM_TOKEN   of one bot that speaks for all; or
TELEGRAM_TOKENS  of a bot for each role: {"Software Developer": "123:…", "Code Reviewer": "456:…"}
TELEGRAM_CHATS   who is heard: ids of chats, such as 123,-1001234. Whoever is not named leaves no trace.
"""

from __future__ import annotations

import json
import os

from stenolog import Log, Team
from stenolog.contrib.telegram import Telegram
from stenolog.errors import CallerError


async def on_telegram(team: Team, log: Log, base_url: str | None) -> None:
    """Serve until stopped by Ctrl-C or SIGTERM. The next start goes on where this one has come to."""
    token, tokens, chats = settings()
    async with Telegram(team, log, token=token, tokens=tokens, chats=chats, base_url=base_url) as telegram:
        print(f"{telegram!r}: write to it; Ctrl-C ends")
        await telegram.serve()


def settings() -> tuple[str, dict[str, str], list[int]]:
    """Return the token, the tokens, and the chats; what is missing is said at once."""
    token, tokens, chats = (os.environ.get(f"TELEGRAM_{name}", "") for name in ("TOKEN", "TOKENS", "CHATS"))
    needed = {"TELEGRAM_TOKEN (or TELEGRAM_TOKENS)": token or tokens, "TELEGRAM_CHATS": chats.strip(" ,")}
    if missing := " and ".join(name for name, value in needed.items() if not value):
        raise CallerError(f"expected {missing} in the environment: see README.md")
    try:
        ids = [int(id) for id in chats.split(",") if id.strip()]
    except ValueError:
        raise CallerError(f"TELEGRAM_CHATS: expected ids such as 123,-456; found {chats!r}") from None
    try:
        return token, dict(json.loads(tokens or "{}")), ids
    except (ValueError, TypeError):  # what was found is a secret
        raise CallerError('TELEGRAM_TOKENS: expected JSON, such as {"Code Reviewer": "456:…"}') from None
