"""Chat channels by name: ways in which people write to a team and read its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from stenolog.adapters.plugins import LazyRegistry


class ChatChannel(Protocol):
    """A service that takes messages in, has the team answer, and delivers what it says."""

    async def serve(self) -> None:
        """Run until the channel ends or the task is cancelled."""


MakeChannel: TypeAlias = Callable[..., ChatChannel]
"""Makes a channel of a `Team` and a `Log`; its keyword-only parameters are the options of `chat --option`."""

CHANNELS: LazyRegistry[MakeChannel] = LazyRegistry("a chat channel")
"""Every chat channel by its name."""
CHANNELS.add_reference("console", "stenolog.apps.chats.console:Console")
