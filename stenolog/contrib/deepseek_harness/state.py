"""State that the parts of a session's converter share: its writers, its counts, and the time."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from stenolog.events import EPOCH
from stenolog.importers import EventWriter, ExistingLog, SettingsWriter

from .content import SYSTEM

MAIN = "dsh"


class SessionState:
    """The writers, the counts and the time of one session on its way into the log."""

    def __init__(self, log: ExistingLog) -> None:
        self.writer = EventWriter(SYSTEM, MAIN, log)
        self.setup = SettingsWriter(self.writer)
        self.setup.card(MAIN)
        self.ignored: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self.time: datetime = EPOCH

    def settle(self, key: str) -> None:
        """Write the settings that changed, before the entry of that key."""
        self.setup.settle(key, self.time)
