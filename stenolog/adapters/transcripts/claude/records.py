"""Claude Code session JSONL to events, one session at a time.

Records come in the order of the file; nothing looks ahead. What a record means is told in
`docs/reference/transcripts.md`.
"""

from __future__ import annotations

from typing import Any

from stenolog.domain.entry import EPOCH

from ..fields import items, key_of, obj, text, when, whole
from ..lines import Record
from ..steps import Held, Step
from .queue import Queue
from .talk import MAIN, Block, Kind, Line, Talk, by_system

_GOES_ON = ("SessionStart:resume", "SessionStart:compact")
_LONGEST_WAIT_MS = 30 * 24 * 3600 * 1000


class ClaudeCode:
    """Takes the records of one session and gives the steps that take it down."""

    def __init__(self, log: Held) -> None:
        self.talk = Talk(log)
        self.scribe = self.talk.scribe
        self.beyond = self.talk.beyond
        self.decided = self.talk.decided
        self._queue = Queue()
        self._met: set[str] = set()
        self._at = EPOCH
        self._permission = self.talk.setup.mode
        self._session_mode = "normal"

    def take(self, record: Record) -> list[Step]:
        """What a record adds."""
        value = record.value
        uuid = text(value.get("uuid"))
        if self._again(uuid):
            self.beyond["repeated record"] += 1
            return []
        self._at = when(value.get("timestamp"), self._at)
        agent = self.talk.agents.of_record(value) or MAIN
        self._take(Line(key_of(uuid) or f"#{record.line}", value, agent, self._at))
        if "toolUseResult" in value:
            self.beyond["toolUseResult"] += 1
        return self.talk.scribe.drain()

    def end(self) -> list[Step]:
        """What is left when the file ends."""
        self.talk.scribe.close()
        return self.talk.scribe.drain()

    def _again(self, uuid: str) -> bool:
        again = uuid in self._met
        if uuid:
            self._met.add(uuid)
        return again

    def _take(self, line: Line) -> None:
        match line.value.get("type"):
            case "user":
                self._user(line)
            case "assistant":
                self.talk.assistant(line)
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
            case other:
                self._beyond(line, str(other))

    def _beyond(self, line: Line, what: str, *, begins: bool = False) -> None:
        """Count what is no message, and remember where it stands in the tree."""
        self.beyond[what] += 1
        self.talk.note(line, begins=begins)

    def _user(self, line: Line) -> None:
        if line.agent != MAIN:
            return self.talk.user(line)
        if mode := text(line.value.get("permissionMode")):
            self._permission = self.talk.setup.mode = mode
        waited = self._queue.claim(_plain(line.message.get("content")))
        if waited is not None:
            waited.delivered = True
        return self.talk.user(line, queued=waited.entry if waited is not None else "")

    def _system(self, line: Line) -> None:
        subtype = text(line.value.get("subtype"))
        if subtype == "api_error":
            self.talk.note(line)
            self._api_error(line)
        elif subtype == "local_command" and (words := text(line.value.get("content"))):
            self.talk.note(line)
            self.talk.settle(line)
            self.talk.message(line, line.key, "system", _texts(words), in_context=False)
        else:
            self._beyond(line, f"system/{subtype}", begins=subtype != "compact_boundary")

    def _api_error(self, line: Line) -> None:
        error, wait = obj(line.value.get("error")), line.value.get("retryInMs")
        inner = obj(obj(error.get("error")).get("error")) or obj(error.get("error")) or error
        status = whole(error.get("status"))
        words = text(inner.get("message")) or text(inner.get("code")) or text(line.value.get("error"))
        self.talk.settle(line)
        self.talk.failed(
            line,
            " ".join(filter(None, (str(status or ""), words))),
            status=status,
            attempt=whole(line.value.get("retryAttempt")),
            retry_in_ms=min(wait, _LONGEST_WAIT_MS) if isinstance(wait, int | float) else None,
        )

    def _progress(self, line: Line) -> None:
        data = obj(line.value.get("data"))
        kind = text(data.get("type"))
        self._beyond(line, f"progress/{kind}", begins=data.get("hookName") not in _GOES_ON)
        if kind != "agent_progress":
            return
        agent_id = text(data.get("agentId")) or text(line.value.get("toolUseID"))
        agent = self.talk.agents.name(agent_id, text(line.value.get("parentToolUseID")))
        for value in (*items(data.get("normalizedMessages")), data.get("message")):
            uuid = text(obj(value).get("uuid"))
            if uuid and not self._again(uuid):
                at = when(value.get("timestamp"), line.at)
                self._take(Line(key_of(uuid), value, agent, at))

    def _attachment(self, line: Line) -> None:
        """What was put before the model beside the messages, as far as it is text."""
        attached = obj(line.value.get("attachment"))
        kind = text(attached.get("type"))
        run = _attached(attached)
        waited = self._queue.claim(_plain(run), delivered=True) if kind == "queued_command" else None
        if not run or (waited is not None and waited.delivered):
            return self._beyond(line, f"attachment/{kind}")
        if waited is not None:
            waited.delivered = True
        typed = kind == "queued_command" and not by_system(_plain(run))
        typed = typed and attached.get("commandMode") != "task-notification"
        self.talk.note(line)
        self.talk.settle(line)
        queued = waited.entry if waited is not None else ""
        return self.talk.message(line, line.key, "person" if typed else "system", run, queued=queued)

    def _queue_operation(self, line: Line) -> None:
        operation, content = line.value.get("operation"), line.value.get("content")
        words = content if isinstance(content, str) else _plain(content)
        self.beyond[f"queue-operation/{operation}"] += 1
        if operation == "enqueue" and words:
            self.talk.settle(line)
            self.talk.message(line, line.key, _typed_by(words), _texts(words), in_context=False)
            self._queue.enqueue(words, line.key)
        elif operation in ("remove", "dequeue"):
            waited = self._queue.take(words)
            if waited is not None and operation == "remove" and not waited.delivered:
                waited.delivered = True
                self.talk.decided["queued message delivered"] += 1
                self.talk.settle(line)
                run = _texts(waited.text)
                self.talk.message(line, line.key, _typed_by(waited.text), run, queued=waited.entry)
        elif operation == "popAll":
            self._queue.clear()

    def _mode(self, line: Line) -> None:
        """The permission mode is the mode; the session's own mode is, while it is not the normal one."""
        self.beyond[str(line.value["type"])] += 1
        if mode := text(line.value.get("permissionMode")):
            self._permission = mode
        if mode := text(line.value.get("mode")):
            self._session_mode = mode
        normal = self._session_mode == "normal"
        self.talk.setup.mode = self._permission if normal else self._session_mode

    def _title(self, line: Line) -> None:
        """A title; a `summary` is one only where it names a record of this session."""
        kind = str(line.value["type"])
        self.beyond[kind] += 1
        title = text(line.value.get({"ai-title": "aiTitle", "custom-title": "customTitle"}.get(kind, kind)))
        if title and (kind != "summary" or text(line.value.get("leafUuid")) in self.talk.tree):
            self.talk.setup.title = title

    def _loose_tool(self, line: Line) -> None:
        """Calls and results as records of their own, as an old layout has them."""
        value = line.value
        if value["type"] == "tool_use":
            block = {
                "type": "tool_use",
                "id": line.key,
                "name": value.get("name"),
                "input": value.get("input"),
            }
            message = {"id": line.key, "content": [block]}
            return self.talk.assistant(line._replace(value={**value, "message": message}))
        call_id = text(value.get("tool_use_id")) or self.talk.scribe.unanswered(text(value.get("name")))
        block = {"type": "tool_result", "tool_use_id": call_id, "content": value.get("output")}
        return self.talk.user(line._replace(value={**value, "message": {"content": [block]}}))


def _texts(words: str) -> list[Block]:
    return [{"type": "text", "text": words}]


def _plain(content: Any) -> str:
    """The text of a message's content; empty where there is more than one block of text."""
    if isinstance(content, list) and len(content) == 1:
        return text(obj(content[0]).get("text"))
    return text(content)


def _typed_by(words: str) -> Kind:
    """Queued words are the person's, save what background tasks report."""
    return "system" if by_system(words) or words.startswith('{"task_id"') else "person"


def _attached(attached: dict[str, Any]) -> list[Block]:
    """The text that an attachment holds, wherever it keeps it."""
    content = attached.get("content")
    found = [content, obj(obj(content).get("file")).get("content"), obj(content).get("content")]
    for value in (*found, *(attached.get(name) for name in ("prompt", "text", "message", "snippet"))):
        if isinstance(value, str) and value.strip():
            return _texts(value)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return _texts("\n".join(value))
        if isinstance(value, list) and value and all(obj(item).get("type") for item in value):
            return value
    return []
