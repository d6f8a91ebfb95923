"""Rollouts of Codex CLI as events.

`response_item` records are the source; `event_msg` records that repeat them are counted and skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from stenolog.adapters.importers.conversion.answers import Answer
from stenolog.adapters.importers.conversion.event_writer import EventWriter
from stenolog.adapters.importers.conversion.settings_writer import SettingsWriter
from stenolog.adapters.importers.conversion.steps import ExistingLog, Step, merged, position_ranges
from stenolog.adapters.importers.door.json_lines import JsonObject, Record
from stenolog.adapters.importers.door.times import as_time
from stenolog.adapters.importers.formats import Importer, LineFormat
from stenolog.adapters.providers.failures import error_category
from stenolog.domain import events
from stenolog.domain.entry import EPOCH
from stenolog.domain.errors import DuplicateIdError
from stenolog.domain.parts import ReasoningPart, TextPart
from stenolog.domain.values import Origin, PositionRange, Usage
from stenolog.projections.formats.openai_responses import read
from stenolog.projections.messages.json_fields import Blobs, as_dict, as_int, as_str, compact_json, title_of

from . import TYPES
from .compaction import Compaction
from .tokens import usage

MAIN = "codex"
USER = "user"
SYSTEM = re.compile(
    r"\s*(<(environment_context|user_instructions|permissions instructions|skill|subagent_notification"
    r"|collaboration_mode|model_switch|turn_aborted|system-reminder)>|# AGENTS\.md instructions)"
)
_ABORTED = re.compile(r"\s*<turn_aborted>")
_TURN = ("task_started", "task_complete", "turn_started", "turn_complete")
_ABOUT_THE_SESSION = (
    "cwd",
    "originator",
    "cli_version",
    "source",
    "forked_from_id",
    "parent_thread_id",
    "model_provider",
)
_GIT = {"branch": "branch", "commit_hash": "commit", "repository_url": "repository"}
"""The facts about the working folder's repository, and the names that the settings have for them."""

EXEC_ID = re.compile(r"[0-9a-f]{24}")
"""The ids of what `codex exec --json` wrote, by their form."""


class Line(NamedTuple):
    """One record: its key, its payload, when it was written."""

    key: str
    payload: dict[str, Any]
    time: datetime


class Codex:
    """Converter of a Codex rollout."""

    def __init__(self, log: ExistingLog) -> None:
        self.writer = EventWriter("codex", MAIN, log)
        self._is_told = any(EXEC_ID.fullmatch(answer.first) for answer in log.answers.values())
        """True if the log has what `exec` wrote of the thread, whose lines have other ids."""
        self.setup = SettingsWriter(self.writer)
        self.setup.card(MAIN, provider=read.PROVIDER)
        self.ignored: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self._at = EPOCH
        self._response = ""
        self._uncounted = ""
        self._total: Usage | None = None
        """Codex's own total, as written last; `_counted` is the part of it that answers have."""
        self._counted = Usage()
        self._aborted = self._has_failed = False
        self._said, self._streamed = "", list[ReasoningPart | TextPart]()
        """The words of the turn's items, and those that were written for the screen."""
        self._about: dict[str, Any] | None = None
        self._prompts: list[int] = []
        self._compaction = Compaction()
        self._instructions = ""
        """Instructions that no message has repeated so far."""

    def take(self, record: Record) -> list[Step]:
        """Return the steps for a record; an answer waits for its token count."""
        value = record.value
        if self._is_told:
            found = "what `codex exec --json` wrote of it in the log"
            raise DuplicateIdError(f"expected a new thread, found {found}: give it another name")
        self._at = as_time(value.get("timestamp"), self._at)
        line = Line(f"#{record.line}", as_dict(value.get("payload")), self._at)
        match value.get("type"):
            case "response_item":
                self._item(line)
            case "event_msg":
                self._event(line)
            case "session_meta":
                self._session(line)
            case "turn_context":
                self._turn_context(line)
            case "compacted":
                self._compacted(line)
            case other:
                self.ignored[str(other)] += 1
        return [] if self._uncounted else self.writer.drain()

    def end(self) -> list[Step]:
        """Return the steps left at the end of the file."""
        self.writer.close()
        return self.writer.drain()

    def _source(self, line: Line, id: str, role: str) -> Origin:
        return self.writer.source(id, role, line.key)

    def _responded(self) -> None:
        self._response = self._uncounted = ""

    # Settings

    def _session(self, line: Line) -> None:
        self.ignored["session_meta"] += 1
        if self._about is not None:
            return
        payload = line.payload
        base = payload.get("base_instructions")
        self._about = {name: payload[name] for name in _ABOUT_THE_SESSION if payload.get(name)}
        git = as_dict(payload.get("git"))
        self._about |= {name: as_str(git[key]) for key, name in _GIT.items() if as_str(git.get(key))}
        self.setup.about("codex", self._about)
        # Before rollouts had the base instructions, they had those of the user, which a message may repeat.
        self._instructions = "" if base else as_str(payload.get("instructions"))
        self.setup.card(
            MAIN,
            persona=as_str(as_dict(base).get("text")) or as_str(base),
            provider=as_str(payload.get("model_provider")) or read.PROVIDER,
        )

    def _turn_context(self, line: Line) -> None:
        """Set the mode: approval policy, or the collaboration mode if not the default."""
        self._responded()
        self.ignored["turn_context"] += 1
        payload = line.payload
        together = as_str(as_dict(payload.get("collaboration_mode")).get("mode"))
        policy = as_str(payload.get("approval_policy"))
        if mode := together if together not in ("", "default") else policy:
            self.setup.mode = mode
        if model := as_str(payload.get("model")):
            self.setup.card(MAIN, model=model)
        sandbox, effort = (
            as_str(as_dict(payload.get("sandbox_policy")).get("type")),
            as_str(payload.get("effort")),
        )
        self.setup.about("codex", {"sandbox": sandbox, "effort": effort, "cwd": as_str(payload.get("cwd"))})

    def _instruct(self) -> None:
        """Put instructions on the card that no message repeated before the first words."""
        if self._instructions:
            self.setup.card(MAIN, persona=self._instructions)
            self._instructions = ""

    # What is said

    def _item(self, line: Line) -> None:
        item = line.payload
        kind = as_str(item.get("type"))
        by_client = kind != "tool_search_output" or item.get("execution") == "client"
        if kind == "ghost_snapshot":
            self.ignored[kind] += 1
        elif kind == "message" and item.get("role") != "assistant":
            self._message(line)
        elif kind in read.OUTPUTS and by_client:
            self._output(line)
        else:
            self._answer(line, as_str(item.get("id")))

    def _answer(self, line: Line, item_id: str) -> None:
        """Write an answer's item: successive items are one response, so one message."""
        if not self._response:
            self._response = item_id or line.key
            self._uncounted = line.key
        self._instruct()
        if self.writer.starts_message(line.key, MAIN, self._response):
            self.setup.settle(line.key, line.time)
        model = self.setup.cards[MAIN].model
        parts = read.assistant_parts(line.payload, model, line.key)
        self._said += "".join(part.text for part in parts if isinstance(part, TextPart | ReasoningPart))
        heard = Answer(
            agent=MAIN,
            source_id=self._response,
            time=line.time,
            parts=parts,
            to=(USER,),
            model=model,
        )
        self.writer.add_part(line.key, heard)

    def _output(self, line: Line) -> None:
        self._response = ""
        blobs: Blobs = {}
        call_id = as_str(line.payload.get("call_id"))
        self.setup.settle(line.key, line.time)
        call = self.writer.closed(call_id)
        result = events.ToolResult(
            call_id=call_id,
            call=call.ref if call else None,
            name=call.name if call else "",
            parts=read.output_parts(line.payload, blobs),
            source=self._source(line, call_id, "tool"),
        )
        self.writer.write(result, line.key, line.time, blobs)

    def _message(self, line: Line) -> None:
        self._responded()
        if not any(
            _ABORTED.match(as_str(part.get("text"))) for part in read.content(line.payload.get("content"))
        ):
            self._said, self._streamed = "", []
        runs = list(_runs(line.payload))
        words = [(kind, as_str(part.get("text"))) for kind, run in runs for part in run]
        if any(self._instructions.strip() in text for _, text in words):
            self._instructions = ""
        if any(kind == "person" for kind, _ in words):
            self._instruct()
        said = (text for kind, text in words if kind == "person")
        if self.setup.title is None and (title := title_of(" ".join(said))):
            self.setup.title = title
        self.setup.settle(line.key, line.time)
        positions = []
        for nth, (kind, run) in enumerate(runs):
            id = f"{line.key}:{nth}" if nth else line.key
            positions.append(self._user(line, id, kind, run))
        self._compaction.add_message(line.payload, positions)

    def _user(self, line: Line, id: str, kind: events.AuthorKind, run: list[dict[str, Any]]) -> int:
        role = as_str(line.payload.get("role"))
        words = as_str(run[0].get("text"))
        if _ABORTED.match(words) and not self._aborted:
            self._aborted = True
            return self._failed(line, id, words, "cancelled")
        blobs: Blobs = {}
        message = events.UserMessage(
            parts=tuple(read.user_part(part, blobs) for part in run),
            author_kind=kind,
            to=(MAIN,),
            source=self._source(line, as_str(line.payload.get("id")), role),
        )
        position = self.writer.write(message, id, line.time, blobs)
        if kind == "person":
            self._prompts.append(position)
        return position

    # Records for the screen

    def _event(self, line: Line) -> None:
        kind = as_str(line.payload.get("type"))
        self.ignored[f"event_msg/{kind}"] += 1
        if kind in _TURN:
            self._turn(line, kind)
        elif kind == "token_count":
            self._count(line)
        elif kind == "agent_reasoning" and (words := as_str(line.payload.get("text"))):
            self._streamed.append(ReasoningPart(text=words, provider=read.PROVIDER))
        elif kind == "agent_message" and (words := as_str(line.payload.get("message"))):
            self._streamed.append(TextPart(text=words))
        elif kind == "turn_aborted" and not self._aborted:
            self._aborted = True
            self._failed(line, line.key, as_str(line.payload.get("reason")) or "aborted", "cancelled")
        elif kind in ("error", "stream_error"):
            words = as_str(line.payload.get("message")) or _words_of(line.payload.get("error"))
            self._failed(line, line.key, words, error_category(words))
        elif kind == "thread_rolled_back":
            self._roll_back(as_int(line.payload.get("num_turns")))

    def _turn(self, line: Line, kind: str) -> None:
        """Begin or end a turn; one that ends with an error found in no other record failed."""
        if kind in ("task_started", "turn_started"):
            self._aborted = self._has_failed = False
            self._said, self._streamed = "", []
        self._responded()
        error = line.payload.get("error")
        if error and not (self._has_failed or self._aborted):
            words = _words_of(error)
            self._failed(line, line.key, words, error_category(words))

    def _count(self, line: Line) -> None:
        """Count the tokens of the response that just ended, unless already written."""
        info = as_dict(line.payload.get("info"))
        total, counted = usage(info.get("total_token_usage")), usage(info.get("last_token_usage"))
        if total is not None:
            if total == self._total:
                # Written again, with new rate limits or before a compaction: no response has ended.
                return
            if self._total is None and counted is not None:
                # A session that is taken up again begins with what it had used before.
                self._counted = total.since(counted)
            self._total = total
            # More than the last response, where Codex counts a request that it did not write down.
            counted = total.since(self._counted)
        self.writer.close()
        if counted is not None and self._uncounted:
            self.writer.count(self._uncounted, counted)
            self._counted = total or self._counted
        self._responded()

    def _failed(self, line: Line, id: str, words: str, named: events.ErrorCategory) -> int:
        self._has_failed = True
        self._responded()
        self.setup.settle(line.key, line.time)
        error = events.LlmError(
            agent=MAIN,
            category=named,
            message=words,
            parts=tuple(part for part in self._streamed if part.text not in self._said),
            source=self._source(line, "", "error"),
        )
        self._streamed = []
        return self.writer.write(error, id, line.time)

    # What leaves the context

    def _roll_back(self, turns: int) -> None:
        if not 0 < turns <= len(self._prompts):
            return
        self._responded()
        self.writer.close()
        first = self._prompts[-turns]
        del self._prompts[-turns:]
        gone = PositionRange(first=first, last=self.writer.here)
        self._compaction.forget(range(first, self.writer.here + 1))
        before = tuple(span for span in self.setup.hides or () if span.first < first)
        self.setup.hides = (*before, gone)
        self.setup.branches = True
        self.decisions["rewound"] += 1

    def _compacted(self, line: Line) -> None:
        """Write a summary in place of everything that the new history does not repeat."""
        self._responded()
        self.ignored["compacted"] += 1
        new = self._compaction.compact(line.payload, self.setup.cards[MAIN].model)
        hidden = {p for span in self.setup.hides or () for p in range(span.first, span.last + 1)}
        covers = self.writer.visible(1, hidden | new.kept)
        if not (covers or new.parts):
            return
        if without_result := self.writer.open_calls(MAIN):
            self.setup.hides = merged((*(self.setup.hides or ()), *position_ranges(without_result, set())))
        self.setup.settle(line.key, line.time)
        summary = events.AssistantMessage(
            agent=MAIN,
            purpose="summary",
            covers=covers,
            parts=new.parts,
            to=(USER,),
            source=self._source(line, "", "compacted"),
        )
        self.writer.write(summary, line.key, line.time)
        self.decisions["compaction as a summary"] += 1
        for nth, item in enumerate(new.fresh, 1):
            runs = enumerate(_runs(item))
            fresh = line._replace(payload=item)
            positions = [
                self._user(fresh, f"{line.key}:{nth}.{part}", kind, run) for part, (kind, run) in runs
            ]
            self._compaction.add_message(item, positions)


def _words_of(error: Any) -> str:
    return as_str(as_dict(error).get("message")) or as_str(error) or (compact_json(error) if error else "")


def _runs(message: dict[str, Any]) -> Iterator[tuple[events.AuthorKind, list[dict[str, Any]]]]:
    by_user = message.get("role") == "user"

    def kind(part: dict[str, Any]) -> events.AuthorKind:
        return "person" if by_user and not SYSTEM.match(as_str(part.get("text"))) else "system"

    for found, run in groupby(read.content(message.get("content")), key=kind):
        yield found, list(run)


def session_of(record: JsonObject, has_begun: bool) -> str:
    """Return a rollout's session: its first, even if others' history was copied."""
    payload = as_dict(record.get("payload")) if record.get("type") == "session_meta" else {}
    return "" if has_begun else as_str(payload.get("id")) or as_str(payload.get("session_id"))


CODEX = Importer(
    "codex",
    lines=LineFormat(Codex, session_of),
    is_record=lambda value: value.get("type") in TYPES and isinstance(value.get("payload"), dict),
)
