"""Sessions of Droid: JSON Lines, with `<session>.settings.json` beside them.

Its source is not public. Source: AgentSessions/Services/DroidSessionParser.swift of jazzyalex/agent-sessions,
tests/connector_factory.rs of Dicklesworthstone/coding_agent_session_search; the anchor of a compaction as
several readers of these files have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stenolog import importers
from stenolog.importers import Json, JsonObject, Record, as_dict, as_str, as_time

SETTINGS = "settings"
"""The type that the settings beside a session get here."""


class Droid(importers.MessageSession):
    """Converter of a session."""

    system = main = "droid"
    api = "anthropic"
    wrapped = importers.MessageSession.only_tags("system-reminder", "system-notification")

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a record."""
        value = record.value
        id = importers.key_of(as_str(value.get("id"))) or f"#{record.line}"
        self.time = as_time(value.get("timestamp"), self.time)
        match value.get("type"):
            case "session_start":
                title = as_str(value.get("title")) or as_str(value.get("sessionTitle"))
                self.setup.title = importers.title_of(title) or self.setup.title
                self.setup.also(self.system, {"cwd": as_str(value.get("cwd"))})
            case kind if kind == SETTINGS:
                self._settings(value)
            case "message" if id not in self.positions:
                self._message(id, as_dict(value.get("message")))
            case "compaction_state" if id not in self.positions and as_str(value.get("summaryText")):
                self._compact(id, value)
            case other:
                self.ignored[str(other)] += 1
        return self.writer.drain()

    def _settings(self, value: JsonObject) -> None:
        model = as_str(value.get("model"))
        self.setup.card(self.main, model=model)
        facts = {name: value.get(name) for name in ("reasoningEffort", "autonomyMode", "tokenUsage")}
        self.setup.also(self.system, {name: fact for name, fact in facts.items() if fact})

    def _message(self, id: str, message: JsonObject) -> None:
        model = as_str(message.get("model"))
        ours = "" if "claude" in (model or self.setup.cards[self.main].model or "claude") else self.system
        self.write_message(id, message, provider=ours, model=model)

    def _compact(self, id: str, value: JsonObject) -> None:
        anchor = importers.key_of(as_str(as_dict(value.get("anchorMessage")).get("id")))
        known = list(self.in_context)
        kept = known[known.index(anchor) + 1 :] if anchor in known else []
        self.write_summary(id, importers.text_parts(value["summaryText"]), kept)


def is_session(value: Json) -> bool:
    """Return whether a record is a session's head, or a message of one."""
    record = as_dict(value)
    message = as_dict(record.get("message"))
    is_head = record.get("type") == "session_start" and isinstance(record.get("id"), str)
    return is_head or (record.get("type") == "message" and {"role", "content"} <= message.keys())


def settings_of(path: Path) -> Iterator[JsonObject]:
    """Yield the settings beside a session."""
    if found := as_dict(importers.json_at(path.with_suffix(".settings.json"))):
        yield {**found, "type": SETTINGS}


def session_of(record: JsonObject, has_begun: bool) -> str:
    """Return the session that a head begins."""
    is_head = record.get("type") == "session_start" and not has_begun
    return as_str(record.get("id")) if is_head else ""


DROID = importers.Importer(
    "droid", lines=importers.LineFormat(Droid, session_of, settings_of), is_record=is_session
)
