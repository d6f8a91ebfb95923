"""Chats: a conversation with a team at the terminal, or by a channel of your own.

A channel is made of a `ChatSession`, which works and takes commands, and a `Delivery`, which hands each piece
of an answer over at least once; `docs/how-to/extend.md` registers one.
"""

from .apps.chats.base import Backoff, OutgoingMessage, Question, Render, Send, backoff, retry_forever
from .apps.chats.channels import CHANNELS, ChatChannel
from .apps.chats.commands import (
    COMMANDS,
    Command,
    CommandContext,
    TypedCommand,
    agents_by_name,
    command,
    commands,
    mentioned,
    typed_command,
)
from .apps.chats.console import Console
from .apps.chats.delivery import Delivery
from .apps.chats.rendering import (
    CALL_CODE,
    NO_NAMES,
    Fence,
    display_name,
    fence_of,
    render_entry,
    split,
    utf16_length,
)
from .apps.chats.session import ChatSession
from .projections.terminal_text import safe

__all__ = [
    "CALL_CODE",
    "CHANNELS",
    "COMMANDS",
    "NO_NAMES",
    "Backoff",
    "ChatChannel",
    "ChatSession",
    "Command",
    "CommandContext",
    "Console",
    "Delivery",
    "Fence",
    "OutgoingMessage",
    "Question",
    "Render",
    "Send",
    "TypedCommand",
    "agents_by_name",
    "backoff",
    "command",
    "commands",
    "display_name",
    "fence_of",
    "mentioned",
    "render_entry",
    "retry_forever",
    "safe",
    "split",
    "typed_command",
    "utf16_length",
]
