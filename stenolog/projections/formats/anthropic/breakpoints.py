"""Cache breakpoints of a request to Anthropic, as the parameter `cache` of a card places them.

One breakpoint follows the persona, or the last tool. For the conversation, a key of the body asks for one at
its end. If notes follow it, breakpoints are set before them instead, on the last block of the user's last two
turns. `cache` false sets none, and `"1h"` keeps all for an hour. An object says more:

    tools      "5m", "1h" or false (default): one of its own after the last tool, for a persona that changes
    prefix     "5m" (default), "1h" or false: the one before the conversation
    messages   "5m" (default), "1h" or false: the one at the end of the conversation
    turns      2: on the user's last two turns, if a turn has more than 20 blocks; 1 is the default
"""

# Anthropic caches what stands before a breakpoint, four at most.
# It finds that again if no more than 20 blocks came since.
# Late notes will not stand there in the next request, so a breakpoint behind them would find nothing again.
# Moving breakpoints on with each request costs nothing at Anthropic.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stenolog.domain.errors import CallerError
from stenolog.projections.messages.message import Body

LIFETIMES = ("5m", "1h")
"""The shorter first. In a request, Anthropic wants the longer ones first."""


class Breakpoints(NamedTuple):
    """Lifetimes of the breakpoints after tools, prefix and messages ("": none); the turns that have one."""

    tools: str = ""
    prefix: str = "5m"
    messages: str = "5m"
    turns: int = 1

    def after_prefix(self, body: Body) -> None:
        """Set the breakpoints after the blocks before the conversation."""
        tool = body["tools"][-1] if body.get("tools") else None
        own = None if tool is None or tool.get("defer_loading") else tool  # both together are refused
        if self.prefix and "system" in body:
            body["system"] = [{"type": "text", "text": body["system"]}]
            set_breakpoints(self.prefix, *body["system"])
        if own is not None:
            set_breakpoints(self.tools or ("" if "system" in body else self.prefix), own)


USUAL, NONE = Breakpoints(), Breakpoints("", "", "", 1)


def breakpoints_of(given: Any, agent: str) -> Breakpoints:
    """Return the breakpoints that a card's `cache` asks for. Raises `CallerError`."""
    if given is None or given is True:
        return USUAL
    if given is False:
        return NONE
    if given in LIFETIMES:
        return Breakpoints(prefix=given, messages=given)
    if not isinstance(given, Mapping):
        return USUAL
    where = f"agent {agent!r}: cache: expected"
    if unknown := set(given) - set(Breakpoints._fields):
        raise CallerError(f"{where} {', '.join(Breakpoints._fields)}, found {min(unknown)!r}")
    chosen = Breakpoints(**{name: value or "" for name, value in given.items()})  # type: ignore[arg-type]
    kept = [each for each in chosen[:3] if each]
    if any(each not in LIFETIMES for each in kept):
        raise CallerError(f'{where} "5m", "1h" or false, found {dict(given)!r}')
    if kept != sorted(kept, key=LIFETIMES.index, reverse=True):
        raise CallerError(f"{where} the longer lifetimes first, found {dict(given)!r}")
    if chosen.turns not in (1, 2):
        raise CallerError(f"{where} 1 or 2 turns, found {chosen.turns!r}")
    return chosen


def set_breakpoints(lifetime: str, *places: Body) -> None:
    """Set a breakpoint after each of these blocks, or at the end of a whole body; without a lifetime none."""
    kept = {"ttl": lifetime} if lifetime == "1h" else {}
    for place in places if lifetime else ():
        place["cache_control"] = {"type": "ephemeral", **kept}
