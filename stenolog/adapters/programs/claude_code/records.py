"""Session records of Claude Code as events, one session at a time.

In file order, without looking ahead. `docs/reference/transcripts.md` says what records mean.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from stenolog.adapters.importers.conversion.settings_writer import settings_id
from stenolog.adapters.importers.conversion.steps import ExistingLog, Step
from stenolog.adapters.importers.door.json_lines import Record
from stenolog.adapters.importers.door.times import as_time
from stenolog.domain.entry import EPOCH
from stenolog.projections.formats.anthropic.read import call_block, result, result_block
from stenolog.projections.messages.json_fields import as_dict, as_int, as_list, as_str, key_of

from .attachments import MEASURED, SNAPSHOT, attachment, rendered, snapshot, text_of
from .branches import Queue, Repeats, content_of, uuid_of
from .line import AGENT_NOTE, MAIN, Line, as_typed, by_system, is_inserted, plain_text, queued_text, typed_by
from .messages import Block, ClaudeMessages

_GOES_ON = ("SessionStart:resume", "SessionStart:compact")
_ASIDE = frozenset(
    {
        "queue-operation",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "summary",
        "ai-title",
    }
)
"""Records that say nothing, and may be between queued words and their delivery."""
_LONGEST_WAIT_MS = 30 * 24 * 3600 * 1000


class ClaudeCode:
    """Converter of a Claude Code session."""

    def __init__(self, log: ExistingLog) -> None:
        self.conversation = ClaudeMessages(log)
        self.writer = self.conversation.writer
        self.ignored = self.conversation.ignored
        self.decisions = self.conversation.decisions
        self._queue = Queue()
        self._repeats = Repeats()
        self._held: Line | None = None
        """Queued words that nothing has followed yet: the next record may be their delivery."""
        self._titled: Line | None = None
        self._found: tuple[Any, Any] = (None, None)
        self._place: dict[str, Any] = {}
        self._compacts = False
        self._renders = False
        """The file writes what it sends of an attachment, so one without that was not sent."""
        self._late: list[Line] = []
        """Attachments that an earlier import may have passed over: the next message decides."""
        self._at = EPOCH
        self._permission = self.conversation.setup.mode
        self._session_mode = "normal"

    def take(self, record: Record) -> list[Step]:
        """Return the steps for a record."""
        value = record.value
        if self._repeats.again(value):
            self.ignored["repeated record"] += 1
            return []
        self._at = as_time(value.get("timestamp"), self._at)
        if value.get("type") == AGENT_NOTE:
            self.conversation.note_agent(value)
            return []
        agent = self.conversation.agents.of_record(value) or MAIN
        call = as_str(value.get("parent_tool_use_id"))
        line = self._line(value, agent, self._at, f"#{record.line}", call)
        if agent == MAIN:
            self._note_place(value)
        self._take(line)
        if "toolUseResult" in value:
            self.ignored["toolUseResult"] += 1
        return self.conversation.writer.drain()

    def end(self) -> list[Step]:
        """Return the steps left at the end of the file."""
        self._settle_late(None)
        self._deliver_late()
        if self._titled is not None and self.conversation.setup.title_waits and self.conversation.writer.here:
            self.conversation.setup.settle(self._titled.key, self._titled.time)
        self.conversation.writer.close()
        return self.conversation.writer.drain()

    def _line(self, value: dict[str, Any], agent: str, time: datetime, number: str, call: str = "") -> Line:
        uuid, shared = uuid_of(value), self._repeats.shared
        if uuid in shared:
            self.conversation.tree.drop(uuid)
            uuid, value = "", _without(value, "uuid", "parentUuid")
        elif shared and as_str(value.get("parentUuid")).strip() in shared:
            value = _without(value, "parentUuid")
        return Line(key_of(uuid) or number, value, agent, time, call)

    def _note_place(self, value: dict[str, Any]) -> None:
        found = value.get("cwd"), value.get("gitBranch")
        if found != self._found:
            self._found = found
            places = zip(("cwd", "branch"), map(as_str, found), strict=True)
            self._place |= {name: each for name, each in places if each}
            self.conversation.setup.about("claude-code", self._place)

    def _take(self, line: Line) -> None:
        if self._held is not None and self._ends_waiting(line, self._held):
            self._deliver_late(line)
        if self._is_late(line):
            self._late.append(line)
            return self.conversation.note(line)
        if self._late and line.value.get("type") in ("user", "assistant"):
            self._settle_late(line)
        match line.value.get("type"):
            case "user":
                self._user(line)
                self.conversation.note_position(line)
            case "assistant":
                self.conversation.assistant(line)
                self.conversation.note_position(line)
            case "system":
                self._system(line)
            case "progress":
                self._progress(line)
            case "attachment":
                self._attachment(line)
            case "queue-operation":
                self._queue_operation(line)
            case "permission-mode" | "mode":
                self._mode(line)
            case "summary" | "ai-title" | "custom-title":
                self._title(line)
            case "tool_use" | "tool_result":
                self._loose_tool(line)
            case "result":
                self._result(line)
            case other:
                self._beyond(line, str(other))
        return None

    def _beyond(self, line: Line, what: str, *, begins: bool = False) -> None:
        self.ignored[what] += 1
        self.conversation.note(line, begins=begins)

    def _user(self, line: Line) -> None:
        if line.agent != MAIN:
            return self.conversation.user(line)
        if line.value.get("isSynthetic"):  # a stream's: a session has other marks for the same
            self._compacts, is_summary = False, self._compacts
            line = replace(line, value={**line.value, "isMeta": True, "isCompactSummary": is_summary})
        if mode := as_str(line.value.get("permissionMode")):
            self._permission = self.conversation.setup.mode = mode
        waited = self._queue.claim(as_typed(plain_text(line.message.get("content"))))
        if waited is not None:
            waited.delivered = True
        return self.conversation.user(line, queued=waited.entry if waited is not None else "")

    def _result(self, line: Line) -> None:
        """Add the outcome of a `claude -p` run; its last text is a message already."""
        subtype = as_str(line.value.get("subtype"))
        self.ignored[f"result/{subtype}"] += 1
        if subtype.startswith("error"):
            errors = [as_str(each) for each in as_list(line.value.get("errors"))]
            self.conversation.settle(line)
            self.conversation.failed(line, "; ".join(filter(None, errors)) or subtype.replace("_", " "))

    def _system(self, line: Line) -> None:
        subtype = as_str(line.value.get("subtype"))
        if subtype == "init":
            self._init(line.value)
        self._compacts = subtype == "compact_boundary"
        if self._compacts and line.agent == MAIN:
            self.conversation.preserve(as_dict(line.value.get("compactMetadata")))
        if subtype == "api_error":
            self.conversation.note(line)
            self._api_error(line)
        elif subtype == "microcompact_boundary":
            self.conversation.note(line, begins=True)
            self.conversation.microcompact(line)
        elif subtype in ("api_refusal", "model_refusal_fallback"):
            self._beyond(line, f"system/{subtype}", begins=True)
            self.conversation.refused(line)
        elif subtype == "local_command" and (words := as_str(line.value.get("content"))):
            self.conversation.note(line)
            self.conversation.settle(line)
            self.conversation.message(line, line.key, "system", _texts(words), in_context=False)
        else:
            self._beyond(line, f"system/{subtype}", begins=subtype != "compact_boundary")

    def _init(self, value: dict[str, Any]) -> None:
        if model := as_str(value.get("model")):
            self.conversation.setup.card(MAIN, model=model)
        if mode := as_str(value.get("permissionMode")):
            self._permission = self.conversation.setup.mode = mode

    def _api_error(self, line: Line) -> None:
        error, wait = as_dict(line.value.get("error")), line.value.get("retryInMs")
        inner = as_dict(as_dict(error.get("error")).get("error")) or as_dict(error.get("error")) or error
        status = as_int(error.get("status"))
        words = as_str(inner.get("message")) or as_str(inner.get("code")) or as_str(line.value.get("error"))
        self.conversation.settle(line)
        self.conversation.failed(
            line,
            " ".join(filter(None, (str(status or ""), words))),
            status=status,
            attempt=as_int(line.value.get("retryAttempt")),
            retry_in_ms=min(wait, _LONGEST_WAIT_MS) if isinstance(wait, int | float) else None,
        )

    def _progress(self, line: Line) -> None:
        data = as_dict(line.value.get("data"))
        kind = as_str(data.get("type"))
        self._beyond(line, f"progress/{kind}", begins=data.get("hookName") not in _GOES_ON)
        if kind != "agent_progress":
            return
        agent_id = as_str(data.get("agentId")) or as_str(line.value.get("toolUseID"))
        call = as_str(line.value.get("parentToolUseID"))
        agent = self.conversation.agents.name(agent_id, call)
        beside: set[int] = set()
        for nth, value in enumerate((*as_list(data.get("normalizedMessages")), data.get("message"))):
            if not isinstance(value, dict) or self._repeats.again(value, agent, beside):
                continue
            beside.update(content_of(value))
            at = as_time(value.get("timestamp"), line.time)
            self._take(self._line(value, agent, at, f"{line.key}:{nth}", call))

    def _attachment(self, line: Line) -> None:
        """Add an attachment: text that the model was sent beside the messages."""
        data = as_dict(line.value.get("attachment"))
        kind = as_str(data.get("type"))
        if kind == "queued_command":
            return self._queued_command(line, data)
        self._renders = self._renders or bool(rendered(line.value))
        found = attachment(line.value, renders=self._renders)
        if kind == SNAPSHOT:
            self._prompt(line, data)
        if not found.blocks:
            lacks = " (its text is not in the file)" if found.lacks_words else ""
            return self._beyond(line, f"attachment/{kind}{lacks}")
        about = {"attachment": kind, **({} if found.is_exact else {"headings": MEASURED})}
        self.conversation.note(line)
        self.conversation.settle(line)
        self.conversation.message(
            line, line.key, "system", found.blocks, in_context=found.is_sent, about=about
        )
        return None

    def _prompt(self, line: Line, data: dict[str, Any]) -> None:
        self.conversation.resume(line)
        found = snapshot(data)
        card = {"persona": found.persona, "tools": found.tools}
        self.conversation.setup.card(line.agent, **{name: value for name, value in card.items() if value})

    def _queued_command(self, line: Line, data: dict[str, Any]) -> None:
        """Add words typed while the agent was busy, at the place where they were sent."""
        run = text_of(data)
        waited = self._queue.claim(plain_text(run), delivered=True)
        if not run or (waited is not None and waited.delivered):
            return self._beyond(line, "attachment/queued_command")
        if waited is not None:
            waited.delivered = True
        typed = data.get("commandMode") != "task-notification" and not by_system(plain_text(run))
        self.conversation.note(line)
        self.conversation.settle(line)
        queued = waited.entry if waited is not None else ""
        return self.conversation.message(line, line.key, "person" if typed else "system", run, queued=queued)

    def _is_late(self, line: Line) -> bool:
        """Return whether an attachment may precede messages of an earlier import.

        An earlier release read fewer kinds. What it skipped would now follow those messages.
        """
        log = self.writer.log
        return line.value.get("type") == "attachment" and log.head > 0 and not self.writer.holds(line.key)

    def _settle_late(self, line: Line | None) -> None:
        """Write the attachments before a message, unless the log has the message without them."""
        late, self._late = self._late, []
        is_held = line is not None and (self.writer.holds(line.key) or line.key in self.writer.log.answers)
        for each in late:
            if is_held:
                self.ignored["attachment before messages that were imported earlier"] += 1
            else:
                self._attachment(each)

    def _queue_operation(self, line: Line) -> None:
        operation, words = line.value.get("operation"), queued_text(line.value)
        self.ignored[f"queue-operation/{operation}"] += 1
        if operation == "enqueue" and words:
            self._deliver_late()
            self._queue.enqueue(words, line.key)
            self._held = line
            if self.conversation.writer.holds(line.key):
                self._deliver_late()
        elif operation in ("remove", "dequeue"):
            waited = self._queue.take(words)
            if waited is not None and operation == "remove" and not waited.delivered:
                self._deliver_late()
                waited.delivered = True
                self.conversation.decisions["queued message delivered"] += 1
                self.conversation.settle(line)
                run = _texts(waited.text)
                self.conversation.message(line, line.key, typed_by(waited.text), run, queued=waited.entry)
        elif operation == "popAll":
            self._deliver_late()
            self._queue.clear()

    def _ends_waiting(self, line: Line, held: Line) -> bool:
        """Return whether queued text is released: delivered by this record, or followed by another."""
        kind = line.value.get("type")
        is_taken_out = self._queue.out(held.key) is not None
        if is_taken_out and is_inserted(line):
            return False
        return kind in ("user", "assistant") or not (is_taken_out or kind in _ASIDE)

    def _deliver_late(self, line: Line | None = None) -> None:
        """Write queued words out of context, unless this record delivers them.

        `claude -p` queues and dequeues its prompt at once, so the file has the words twice.
        """
        held, self._held = self._held, None
        if held is None:
            return
        words = queued_text(held.value)
        waited = self._queue.out(held.key)
        is_prompt = line is not None and line.agent == MAIN and line.value.get("type") == "user"
        content = line.message.get("content") if line is not None else None
        if is_prompt and waited and as_typed(plain_text(content)) == words:
            self._queue.forget(waited)
            return
        self.conversation.settle(held)
        self.conversation.message(held, held.key, typed_by(words), _texts(words), in_context=False)

    def _mode(self, line: Line) -> None:
        self.ignored[str(line.value["type"])] += 1
        if mode := as_str(line.value.get("permissionMode")):
            self._permission = mode
        if mode := as_str(line.value.get("mode")):
            self._session_mode = mode
        normal = self._session_mode == "normal"
        self.conversation.setup.mode = self._permission if normal else self._session_mode

    def _title(self, line: Line) -> None:
        """Set the title; a `summary` counts only if it names a record of this session."""
        kind = str(line.value["type"])
        self.ignored[kind] += 1
        title = as_str(line.value.get({"ai-title": "aiTitle", "custom-title": "customTitle"}.get(kind, kind)))
        if title and (kind != "summary" or as_str(line.value.get("leafUuid")) in self.conversation.tree):
            self.conversation.setup.title = title
            self._titled = line
            if self.conversation.writer.holds(
                settings_id(line.key)
            ):  # the file ended here at an earlier import
                self.conversation.setup.settle(line.key, line.time)

    def _loose_tool(self, line: Line) -> None:
        """Read calls and results that are separate records, as in an old layout."""
        value = line.value
        if value["type"] == "tool_use":
            block = call_block(line.key, value.get("name"), value.get("input"))
            message = {"id": line.key, "content": [block]}
            return self.conversation.assistant(replace(line, value={**value, "message": message}))
        named = result(value, {}).call_id
        call_id = named or self.conversation.writer.unanswered(as_str(value.get("name")))
        block = result_block(call_id, value.get("output"))
        return self.conversation.user(replace(line, value={**value, "message": {"content": [block]}}))


def _texts(words: str) -> list[Block]:
    return [{"type": "text", "text": words}]


def _without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name not in names}
