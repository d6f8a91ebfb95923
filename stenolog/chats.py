"""Chats: a conversation with a team on Telegram, at the terminal, or by a way of your own.

Nothing of Telegram's library is imported before a `Telegram` is made.
"""

from .adapters.chats.base import OutgoingMessage, Question, Render, Send
from .adapters.chats.commands import COMMANDS, CommandContext, command, commands
from .adapters.chats.console import Console
from .adapters.chats.delivery import Delivery
from .adapters.chats.hearing import mentioned
from .adapters.chats.rendering import render_entry
from .adapters.chats.session import ChatSession
from .adapters.chats.splitting import split, utf16_length
from .adapters.chats.telegram.service import Telegram

__all__ = [
    "COMMANDS",
    "ChatSession",
    "CommandContext",
    "Console",
    "Delivery",
    "OutgoingMessage",
    "Question",
    "Render",
    "Send",
    "Telegram",
    "command",
    "commands",
    "mentioned",
    "render_entry",
    "split",
    "utf16_length",
]
