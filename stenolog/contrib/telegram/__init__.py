"""Telegram: chats whose messages a team of agents answers. Its library is imported by making a `Telegram`."""

from .service import Telegram

__all__ = ["Telegram"]
