"""Chats: a conversation with a team at the terminal, or by a channel of your own."""

from .adapters.chats.base import OutgoingMessage, Question, Render, Send
from .adapters.chats.channels import CHANNELS, ChatChannel
from .adapters.chats.commands import COMMANDS, CommandContext, command, commands
from .adapters.chats.console import Console
from .adapters.chats.delivery import Delivery
from .adapters.chats.hearing import mentioned
from .adapters.chats.rendering import render_entry
from .adapters.chats.session import ChatSession
from .adapters.chats.splitting import split, utf16_length

__all__ = [
    "CHANNELS",
    "COMMANDS",
    "ChatChannel",
    "ChatSession",
    "CommandContext",
    "Console",
    "Delivery",
    "OutgoingMessage",
    "Question",
    "Render",
    "Send",
    "command",
    "commands",
    "mentioned",
    "render_entry",
    "split",
    "utf16_length",
]
