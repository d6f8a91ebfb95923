"""Sessions of the coding agent pi, and of OpenClaw, which is built on it."""

from .sessions import PI

__all__ = ["PI"]
