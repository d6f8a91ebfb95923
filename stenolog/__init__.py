"""Stenolog takes a conversation with LLM agents down word for word, and reads it back."""

__version__ = "0.1.0"
