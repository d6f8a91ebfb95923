"""Chat channels by name: ways to write to a team and read its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from stenolog.adapters.plugins import LazyRegistry


class ChatChannel(Protocol):
    """A service that receives messages, runs the team, and delivers answers."""

    async def serve(self) -> None:
        """Run until the channel ends or the task is cancelled."""


MakeChannel: TypeAlias = Callable[..., ChatChannel]
"""Makes a channel of a `Team` and a `Log`; its keyword-only parameters are the options of `chat --option`."""

CHANNELS: LazyRegistry[MakeChannel] = LazyRegistry("a chat channel")
"""Every chat channel by its name."""
CHANNELS.add_reference("console", "stenolog.apps.chats.console:Console")
