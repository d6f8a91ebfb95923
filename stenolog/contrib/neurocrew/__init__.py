"""Chats of NeuroCrew Lab, `chat_<id>.json`: read, and written for the way back."""

from .export import document

__all__ = ["document"]
