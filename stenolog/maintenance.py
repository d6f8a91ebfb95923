"""Maintenance of a log's file: check it, restore a backup, save what is intact."""

from .adapters.conversation.verifying.integrity import Restored, restore, verify
from .adapters.conversation.verifying.salvage import Salvaged, salvage

__all__ = ["Restored", "Salvaged", "restore", "salvage", "verify"]
