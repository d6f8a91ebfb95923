"""Sessions of opencode: its storage folder, its database, and its exports."""

from .folder import OPENCODE

__all__ = ["OPENCODE"]
