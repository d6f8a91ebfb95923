"""Chats: a conversation with a team on Telegram, at the terminal, or by a way of your own.

Nothing of Telegram's library is imported before a `Telegram` is made.
"""

from .adapters.chats.commands import COMMANDS, Told, command, commands
from .adapters.chats.console import Console
from .adapters.chats.hearing import mentioned
from .adapters.chats.outlet import Outlet
from .adapters.chats.port import Piece, Question, Render, Send
from .adapters.chats.rendering import pieces
from .adapters.chats.room import Room
from .adapters.chats.splitting import split, units
from .adapters.chats.telegram.service import Telegram

__all__ = [
    "COMMANDS",
    "Console",
    "Outlet",
    "Piece",
    "Question",
    "Render",
    "Room",
    "Send",
    "Telegram",
    "Told",
    "command",
    "commands",
    "mentioned",
    "pieces",
    "split",
    "units",
]
