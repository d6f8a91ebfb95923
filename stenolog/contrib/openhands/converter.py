"""Converter of one OpenHands conversation, whose events are of either version."""

from __future__ import annotations

from typing import Any

from stenolog.errors import DuplicateIdError
from stenolog.importers import (
    ExistingLog,
    Json,
    Record,
    Step,
    as_dict,
    as_str,
    as_time,
    compact_json,
    error_category,
    key_of,
)

from .session import MAIN, SYSTEM, OpenHandsSession
from .v0 import V0Events, event_key
from .v1 import V1Events

LANE = "stenolog.lane"
"""The key of a record that names the sub-agent whose `event` it holds."""
SOURCES = frozenset(("agent", "user", "environment", "hook"))


def is_v1_event(value: Json) -> bool:
    """Return whether a value is an event of V1."""
    event = as_dict(value)
    has_names = isinstance(event.get("kind"), str) and isinstance(event.get("id"), str)
    return has_names and "timestamp" in event and as_str(event.get("source")) in SOURCES


def is_v0_event(value: Json) -> bool:
    """Return whether a value is an event of V0: an action with arguments, or an observation."""
    event = as_dict(value)
    is_action = isinstance(event.get("action"), str) and isinstance(event.get("args"), dict)
    is_observation = isinstance(event.get("observation"), str) and "content" in event
    return (is_action or is_observation) and ("source" in event or "message" in event)


def is_event(value: Json) -> bool:
    """Return whether a value is an event of either version."""
    return is_v1_event(value) or is_v0_event(value)


class OpenHands(OpenHandsSession):
    """Converts the events of one conversation, or of one run of an evaluation.

    `about` are facts for `meta`, `title` is the conversation's, `states` are the states of its agents by
    their names, and `error` is the failure that a run ended with.
    """

    def __init__(
        self,
        log: ExistingLog,
        *,
        about: dict[str, Any] | None = None,
        title: str = "",
        states: dict[str, dict[str, Any]] | None = None,
        error: str = "",
    ) -> None:
        super().__init__(log)
        self._v0 = V0Events(self)
        self._v1 = V1Events(self)
        self._error = error
        self._seen: dict[str, int] = {}
        """A hash of each event by its key: a stream may hold an event twice."""
        self._repeated = 0
        self.describe(about or {})
        self.setup.title = title or None
        for agent, state in (states or {}).items():
            self.agent = agent
            self._v1.describe(state)
        self.agent = MAIN

    def take(self, record: Record) -> list[Step]:
        """Return the steps for an event.

        Raises `ValueError` for an event of another shape than expected, `DuplicateIdError` for another run.
        """
        was_begun = self.setup.is_begun
        try:
            self._take(record)
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        if self.setup.is_begun and not was_begun:
            self._check_same_run()
        return self.writer.drain()

    def _take(self, record: Record) -> None:
        value, lane = record.value, as_str(record.value.get(LANE))
        if lane:
            value = as_dict(value.get("event"))
        if not is_event(value):
            self.ignored["record"] += 1
            return
        self.time = as_time(value.get("timestamp"), self.time)
        is_v1 = is_v1_event(value)
        own = key_of(as_str(value.get("id"))) if is_v1 else event_key(value.get("id"))
        key = "/".join(filter(None, (lane, own or f"#{record.line}")))
        if not (key := self._unique(key, value)):
            return
        if is_v1:
            self.agent = lane or MAIN
            self._v1.take(key, value)
        else:
            self._v0.take(key, value)

    def end(self) -> list[Step]:
        """Return the steps left at the end, with the failure of a run that no event tells."""
        self.close()
        if self._error and self._error not in self.errors:
            self.agent = MAIN
            self.add_error("run-error", self._error, error_category(self._error))
        self.writer.close()
        return self.writer.drain()

    def _check_same_run(self) -> None:
        """Raise `DuplicateIdError` if the log has another run, of the same name, with the same event ids."""
        first = self.writer.log.first
        origin = getattr(first.event, "source", None) if first else None
        if first and origin and origin.system == SYSTEM and first.time != self.time:
            raise DuplicateIdError(
                f"expected the run that was imported before, which began at {first.time.isoformat()}, "
                f"found one that began at {self.time.isoformat()}: give it another name"
            )

    def _unique(self, key: str, value: dict[str, Any]) -> str:
        """Return the key of an event, another one where two have the same; empty for a repeated event."""
        digest = hash(compact_json(value))
        if key in self._seen and digest != self._seen[key]:
            self._repeated += 1
            key = f"{key}~{self._repeated}"
        elif key in self._seen:
            self.ignored["repeated event"] += 1
            return ""
        self._seen[key] = digest
        return key
