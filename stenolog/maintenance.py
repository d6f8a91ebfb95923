"""Maintenance of a log: check it, restore a backup, save what is intact, forbid to erase and delete."""

from .adapters.conversation.holding import Hold, hold, holds, release
from .adapters.conversation.subject import Subject, SubjectErased, erase_subject, find_subject
from .adapters.conversation.verifying.integrity import Restored, restore, verify
from .adapters.conversation.verifying.salvage import Salvaged, salvage

__all__ = [
    "Hold",
    "Restored",
    "Salvaged",
    "Subject",
    "SubjectErased",
    "erase_subject",
    "find_subject",
    "hold",
    "holds",
    "release",
    "restore",
    "salvage",
    "verify",
]
