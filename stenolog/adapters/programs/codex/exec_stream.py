"""Lines that `codex exec --json` writes to stdout, as events.

The form is that of openai/codex, `codex-rs/exec/src/exec_events.rs`. The lines have no times and no prompts.
"""

from __future__ import annotations

import operator
from hashlib import sha256
from itertools import count
from typing import Any

from stenolog.adapters.importers.conversion.part_tables import PartTable, media_maker, text_maker
from stenolog.adapters.importers.conversion.session_converter import SessionConverter, text_parts
from stenolog.adapters.importers.conversion.steps import ExistingLog, Step, combined
from stenolog.adapters.importers.door.json_lines import Json, JsonObject, Record
from stenolog.adapters.importers.formats import Importer, LineFormat
from stenolog.adapters.providers.failures import error_category
from stenolog.domain.errors import CallerError
from stenolog.domain.parts import AssistantPart, ReasoningPart, ToolCall, UserPart
from stenolog.domain.values import Usage
from stenolog.projections.formats.openai_responses.read import PROVIDER
from stenolog.projections.messages.json_fields import Blobs, as_dict, as_str, compact_json

from . import STREAM
from .sessions import MAIN
from .tokens import usage

_ABOUT = ("id", "type", "status", "aggregated_output", "exit_code", "result", "error", "agents_states")
"""The fields of an item that are no arguments of its call."""
_ENDS = ("turn.completed", "turn.failed")
_FAILED = ("failed", "declined")
_BLOCKS: PartTable[UserPart] = PartTable(
    "mcp", {"text": text_maker(), "image": media_maker(), "audio": media_maker(default="audio/wav")}
)


class Exec(SessionConverter):
    """Converter of a run's lines: an item is a part of an answer, or a call with its result."""

    system, main, provider = "codex", MAIN, PROVIDER

    def __init__(self, log: ExistingLog) -> None:
        super().__init__(log)
        self._is_told = any(id.startswith("#") for id in log.positions)
        """True if the log has the thread's rollout, which says more."""
        self._waiting: list[JsonObject] = []
        """The lines of a run's first turn, until the log shows which run it is."""
        self._is_placed = False
        self._taken: set[str] = set()
        """The ids in the first turns of the file's runs."""
        self._chain = b""
        self._response = self._last = ""
        """The ids of the answer under way, and of the turn's last."""
        self._calls: dict[str, str] = {}
        """The ids of calls by those of their items, which begin anew with each run."""
        self._total, self._fresh = Usage(), Usage()
        """The thread's tokens so far, and those of them that the log does not have."""

    def take(self, record: Record) -> list[Step]:
        """Return the steps for a record; a turn's wait for its token count."""
        kind = as_str(record.value.get("type"))
        if self._is_told:
            self.ignored["line of a thread whose rollout is in the log"] += 1
            return []
        if kind == "thread.started":
            self._write_waiting()
            self._is_placed = False
        self._waiting.append(record.value)
        if self._is_placed or kind in _ENDS:
            self._write_waiting()
        return [] if self._last else self.writer.drain()

    def end(self) -> list[Step]:
        """Return the steps left at the end."""
        self._write_waiting()
        return super().end()

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and not self._is_placed:
            self._place_run(waiting)
        for value in waiting:
            self._chain = _next_chain(self._chain, value)
            try:
                self._write_line(self._chain.hex()[:24], value)
            except CallerError:
                raise
            except (ValueError, RecursionError) as error:
                self.ignored[f"line that cannot be taken down: {type(error).__name__}"] += 1

    def _place_run(self, turn: list[JsonObject]) -> None:
        """Find a run in the log, or its place there, by its first turn.

        Another run may have the same words, but not the same total: then a number tells them apart.
        """
        log = self.writer.log
        total = usage(turn[-1].get("usage"))
        for number in count():
            self._chain = str(number).encode() if number else b""
            ids = _ids(self._chain, turn)
            held = [log.positions[id] for id in ids if id in log.positions]
            self._total = self._used_before(min(held, default=log.head + 1))
            if not held:
                self._total = combined(self._total, self._fresh, operator.add)
            counted = next((log.used[MAIN, id] for id in ids if (MAIN, id) in log.used), None)
            is_same = None in (total, counted) or (total and total.since(self._total)) == counted
            if self._taken.isdisjoint(ids) and (is_same or not held):
                break
        self._taken.update(ids)
        self._is_placed, self._response, self._last, self._calls = True, "", "", {}

    def _used_before(self, position: int) -> Usage:
        """Return the tokens that the log has of the thread before a position."""
        log, used = self.writer.log, Usage()
        for message in {each.message for each in log.answers.values() if each.position < position}:
            used = combined(used, log.used.get((MAIN, message), Usage()), operator.add)
        return used

    def _write_line(self, id: str, value: JsonObject) -> None:
        match kind := as_str(value.get("type")):
            case "item.started" | "item.updated" | "item.completed":
                self._item(id, as_dict(value.get("item")), is_done=kind == "item.completed")
            case "turn.completed":
                self._count(usage(value.get("usage")))
            case "turn.failed":
                words = as_str(as_dict(value.get("error")).get("message"))
                self.write_error(id, words, error_category(words))
            case "turn.started":
                self.ignored["missing: the prompt of a turn"] += 1
            case _:
                self.ignored[kind or "record"] += 1
        if kind in _ENDS:
            self._response = self._last = ""

    def _item(self, id: str, item: JsonObject, *, is_done: bool) -> None:
        words = as_str(item.get("text"))
        match as_str(item.get("type")):
            case "error":
                words = as_str(item.get("message"))
                self.write_user(id, text_parts(words), "system", role="error", in_context=False)
            case "agent_message" | "plan" if is_done and words:
                self._say(id, text_parts(words))
            case "reasoning" if is_done and words:
                self._say(id, [ReasoningPart(text=words, provider=PROVIDER)])
            case "todo_list" if not is_done:
                self.ignored["unfinished list of things to do"] += 1
            case "agent_message" | "plan" | "reasoning" | "":
                self.ignored["item without words"] += 1
            case kind:
                self._act(id, kind, item, is_done=is_done)

    def _say(self, id: str, parts: list[Any]) -> None:
        """Write parts of an answer: those until the next result are one message."""
        if not self._response:
            self._response = self._last = id
        answer = self.answer(id, parts)
        answer.source_id = self._response
        self.add_part(id, answer)

    def _act(self, id: str, kind: str, item: JsonObject, *, is_done: bool) -> None:
        own = as_str(item.get("id")) or id
        if own not in self._calls:
            self._calls[own] = id
            self._say(id, [_call(id, kind, item)])
        if is_done:
            blobs: Blobs = {}
            call = self._calls.pop(own)
            failed = item.get("status") in _FAILED or item.get("exit_code") not in (None, 0)
            self.write_result(f"{id}-result", call, _result(item, blobs), blobs=blobs, is_error=failed)
            self._response = ""

    def _count(self, total: Usage | None) -> None:
        """Count the turn's tokens, of the thread's total, on its last answer."""
        self.writer.close()
        if total is not None and self._last:
            counted = total.since(self._total)
            self.writer.count(self._last, counted)
            if self._last not in self.writer.log.answers:
                self._fresh = combined(self._fresh, counted, operator.add)
        self._total = total or self._total


def _next_chain(chain: bytes, value: JsonObject) -> bytes:
    # Lines have no ids: one is known by all that comes before it in its run, so that a grown file goes on.
    return sha256(chain + compact_json(value).encode(errors="replace")).digest()


def _ids(chain: bytes, turn: list[JsonObject]) -> list[str]:
    """Return the ids of a turn's lines that may become entries."""
    ids = []
    for value in turn:
        chain = _next_chain(chain, value)
        if value.keys() & {"item", "error"}:
            ids.append(chain.hex()[:24])
    return ids


def _call(id: str, kind: str, item: JsonObject) -> AssistantPart:
    named = "__".join(filter(None, (as_str(item.get("server")), as_str(item.get("tool")))))
    given = {name: value for name, value in item.items() if name not in (*_ABOUT, "server", "tool")}
    arguments = item["arguments"] if isinstance(item.get("arguments"), dict) else given
    return ToolCall(id=id, name=named or kind, arguments=compact_json(arguments))


def _result(item: JsonObject, blobs: Blobs) -> list[Any]:
    if words := as_str(item.get("aggregated_output")) or as_str(as_dict(item.get("error")).get("message")):
        return text_parts(words)
    result = as_dict(item.get("result"))
    if parts := _BLOCKS.parts(result.get("content"), blobs):
        return parts
    others: Json = result.get("structured_content") or item.get("agents_states") or item.get("items")
    return text_parts(compact_json(others) if others else as_str(item.get("status")) or "completed")


def _thread_of(record: JsonObject, has_begun: bool) -> str:
    return as_str(record.get("thread_id")) if record.get("type") == "thread.started" else ""


def _is_line(value: Json) -> bool:
    record = as_dict(value)
    return record.get("type") in STREAM and bool({"thread_id", "usage", "item", "error"} & record.keys())


EXEC = Importer("codex-exec", lines=LineFormat(Exec, _thread_of), is_record=_is_line)
