"""Sessions of Qwen Code as events: JSON Lines, each record with its predecessor."""

from __future__ import annotations

from collections import Counter

from stenolog.adapters.importers.conversion.steps import ExistingLog, Step
from stenolog.adapters.importers.door.json_lines import JsonObject, Record
from stenolog.adapters.importers.door.times import as_time
from stenolog.adapters.importers.formats import Importer, LineFormat
from stenolog.adapters.programs.gemini_cli.gemini_session import GeminiSession
from stenolog.domain.events import AuthorKind
from stenolog.projections.formats.gemini.read import answer_parts, responses, text_in, usage_by_total
from stenolog.projections.messages import json_fields

KINDS: dict[str, AuthorKind] = {"cron": "schedule", "notification": "system"}
"""The kind of author that a user's message really has, by the subtype of the record."""


class QwenCode(GeminiSession):
    """Converter of a Qwen Code session."""

    system = "qwen-code"
    main = "qwen"
    provider = "qwen"

    def __init__(self, log: ExistingLog) -> None:
        super().__init__(log)
        self._parents: dict[str, str] = {}
        self._last = ""
        self._said: dict[str, str] = {}
        """The content of each message, by its id, as a compaction repeats it."""
        self._pieces: Counter[str] = Counter()
        """The number of records of each answer, by its id: thoughts and words may come apart."""

    def take(self, record: Record) -> list[Step]:
        """Return the steps for a record."""
        value = record.value
        id = json_fields.key_of(json_fields.as_str(value.get("uuid"))) or f"#{record.line}"
        self.time = as_time(value.get("timestamp"), self.time)
        self._follow(id, value)
        self.setup.about(
            self.system,
            {
                "cwd": json_fields.as_str(value.get("cwd")),
                "branch": json_fields.as_str(value.get("gitBranch")),
            },
        )
        message = json_fields.as_dict(value.get("message"))
        match value.get("type"):
            case "user":
                kind = KINDS.get(json_fields.as_str(value.get("subtype")), "person")
                self.add_user_message(id, message.get("parts"), kind)
            case "assistant":
                self._answer(id, value, message)
            case "tool_result":
                self._results(id, value, message)
            case "system":
                self._system(
                    id,
                    json_fields.as_str(value.get("subtype")),
                    json_fields.as_dict(value.get("systemPayload")),
                )
            case other:
                self.ignored[str(other)] += 1
        if message:
            self._said[id] = json_fields.compact_json(message.get("parts"))
        return self.writer.drain()

    def _follow(self, id: str, value: JsonObject) -> None:
        """Leave a branch that the record is not on: the user went back."""
        parent = json_fields.key_of(json_fields.as_str(value.get("parentUuid")))
        went_back = self._last and parent != self._last and (not parent or parent in self._parents)
        if went_back and "parentUuid" in value and id not in self._parents:
            line = {parent}
            while parent := self._parents.get(parent, ""):
                line.add(parent)
            self.hide({each for each in self.in_context if each not in line})
        self._parents.setdefault(id, json_fields.key_of(json_fields.as_str(value.get("parentUuid"))))
        self._last = id

    def _answer(self, id: str, value: JsonObject, message: JsonObject) -> None:
        model, used = (
            json_fields.as_str(value.get("model")),
            usage_by_total(json_fields.as_dict(value.get("usageMetadata"))),
        )
        self._pieces[id] += 1
        piece = id if self._pieces[id] == 1 else f"{id}:{self._pieces[id]}"
        parts = answer_parts(message.get("parts"), self.provider, model, lambda nth, _: f"{piece}-{nth}")
        if parts or used:
            self.add_answer(piece, parts, model, used, message=id)

    def _results(self, id: str, value: JsonObject, message: JsonObject) -> None:
        blobs: json_fields.Blobs = {}
        failed = json_fields.as_dict(value.get("toolCallResult")).get("status") in ("error", "cancelled")
        for nth, response in enumerate(responses(message.get("parts"), self.provider, blobs)):
            self.add_result(f"{id}:{nth}" if nth else id, id, response, blobs, failed=failed)

    def _system(self, id: str, subtype: str, payload: JsonObject) -> None:
        history = json_fields.as_list(payload.get("compressedHistory"))
        if subtype == "custom_title":
            self.setup.title = (
                json_fields.title_of(json_fields.as_str(payload.get("customTitle"))) or self.setup.title
            )
        elif subtype == "chat_compression" and history:
            self._compress(id, history)
        else:
            self.ignored[f"system/{subtype}"] += 1

    def _compress(self, id: str, history: list[json_fields.Json]) -> None:
        """Write a summary in place of all that the new history does not repeat at its end."""
        said = [each for each in self.in_context if each in self._said]
        kept: list[str] = []
        for content in map(json_fields.as_dict, reversed(history)):
            if not said or self._said[said[-1]] != json_fields.compact_json(content.get("parts")):
                break
            kept.append(said.pop())
        fresh = map(json_fields.as_dict, history[: len(history) - len(kept)])
        text = next((text_in(each.get("parts")) for each in fresh if each.get("role") == "user"), "")
        self.summarise(id, text, [*reversed(kept)])


def is_session(value: json_fields.Json) -> bool:
    """Return whether a record is one of a session."""
    record = json_fields.as_dict(value)
    message = json_fields.as_dict(record.get("message"))
    return "sessionId" in record and "uuid" in record and isinstance(message.get("parts"), list)


def session_of(record: JsonObject, _has_begun: bool) -> str:
    """Return the session that a record belongs to."""
    return json_fields.as_str(record.get("sessionId"))


QWEN_CODE = Importer("qwen-code", lines=LineFormat(QwenCode, session_of), is_record=is_session)
