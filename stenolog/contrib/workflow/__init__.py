"""Rows of a table `conversation_messages`, in which workflows keep their messages: imported, and kept."""

from .files import import_rows
from .table import conversation_messages

__all__ = ["conversation_messages", "import_rows"]
