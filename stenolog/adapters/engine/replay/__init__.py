"""Replays of recorded runs: the log answers for models and tools."""

from .replay import Replay

__all__ = ["Replay"]
