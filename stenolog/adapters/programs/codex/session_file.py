"""Sessions as rollouts that `codex resume` goes on with: an item of the Responses API on each line.

Beside the items are the records by which Codex shows a session on the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from stenolog.adapters.conversation.queries.exporters import Exporter
from stenolog.adapters.conversation.queries.plain_json import when
from stenolog.domain.parts import text_of
from stenolog.domain.values import Usage
from stenolog.projections.formats.body_builder import media, texts
from stenolog.projections.formats.openai_responses.write import NAME
from stenolog.projections.messages.explanation import RequestPart
from stenolog.projections.messages.json_fields import as_dict, as_list, as_str
from stenolog.projections.messages.message import Body, Message
from stenolog.projections.moments.session import STOPPED, AgentSession, SessionFile, as_lines

from . import PROGRAM
from .sessions import SYSTEM

VERSION = "0.169.0"
"""The version of Codex whose records these are."""
_STOPPED = "<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>"


_COUNTS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")


def write_session(session: AgentSession) -> SessionFile:
    """Return an agent's session in Codex's form."""
    records = _Items(session)
    records.write()
    began = session.time().astimezone(UTC)
    return SessionFile(
        session.id,
        as_lines(records.made),
        f"{began:%Y/%m/%d}/rollout-{began:%Y-%m-%dT%H-%M-%S}-{session.id}.jsonl",
        (PROGRAM.executable, "resume", session.id),
        records.notes,
    )


TO_CODEX = Exporter(
    PROGRAM.name, "a session that Codex resumes", of_one_agent=True, write_session=write_session
)


class _Items:
    """The records of a session, in order."""

    def __init__(self, session: AgentSession) -> None:
        self.session = session
        self.made: list[Body] = []
        self.notes: tuple[str, ...] = ()
        self._lost: list[tuple[str, Sequence[int]]] = []
        self._turn, self._model = "", ""
        self._last_words: str | None = None
        self._is_stopped = False
        self._answered: tuple[int, ...] = ()
        self._total = [0] * len(_COUNTS)

    def write(self) -> None:
        session = self.session
        head = {"id": session.id, "timestamp": when(session.time()), "cwd": session.folder}
        about = {"originator": "stenolog", "cli_version": VERSION, "source": "cli"}
        git = {"git": {"branch": session.branch}} if session.branch else {}
        self._add("session_meta", (), {**head, **about, **git})
        messages = [*session.messages]
        at = _summary_at(messages)
        if at >= 0:
            messages[at] = session.as_summary(messages[at])
        rendered = session.rendered(NAME, messages)
        items = rendered.body["input"]
        said: dict[int, RequestPart] = {part.message: part for part in rendered.parts}
        summary = messages[at].positions if at >= 0 else ()
        texts_at = {each.positions: texts(each) for each in messages}
        taken = [n for n, part in said.items() if n >= 0 and part.positions == summary] if summary else []
        for number, item in enumerate(items):
            part = said[number]
            if number in taken:
                if number == taken[-1]:
                    self._compacted(summary, messages[at], items[: number + 1])
                continue
            self._say(part, _as_recorded(item, texts_at.get(part.positions, ())))
        self._count(())
        self._end(messages[-1].positions)
        self._lost += [
            ("unmarked-failure", each.positions) for each in messages if each.role == "tool" and each.failed
        ]
        later = [each for n, each in enumerate(messages) if each.rule == "summary" and n != at]
        self._lost += [("media-as-text", each.positions) for each in messages if _is_note_with_media(each)]
        self._lost += [("late-summary", each.positions) for each in later]
        self.notes = session.lacks(self._lost, rendered)

    def _say(self, part: RequestPart, item: Body) -> None:
        session, at = self.session, part.positions
        self._count(at)
        error = session.failure(part.rule, at)
        if error is not None and part.rule in STOPPED:
            if self._is_stopped:
                self._begin(at)
            self._is_stopped = True
            is_own = error.message.startswith(_STOPPED.partition("\n")[0])
            self._lost += [] if is_own else [("stopped", at)]
            self._item(at, _message("user", error.message if is_own else _STOPPED))
            self._event(at, "turn_aborted", turn_id=self._turn, reason="interrupted")
            return
        if error is not None:
            self._lost.append(("shown-only", at))
            self._event(at, "error", message=error.message or error.category)
            return
        words = [as_str(as_dict(each).get("text")) for each in as_list(item.get("content"))]
        if item.get("role") == "user" and any(map(SYSTEM.match, words)):
            self._lost.append(("taken-for-program", at))
        if item.get("role") == "user":
            self._begin(at)
        elif item.get("role") != "developer":
            self._settle(at)
        self._item(at, item)
        if item.get("role") == "user":
            self._event(at, "user_message", message="\n".join(words), images=[])
        elif item.get("role") == "assistant":
            for self._last_words in words:
                self._event(at, "agent_message", message=self._last_words)

    def _begin(self, at: Sequence[int]) -> None:
        self._end(at)
        self._turn, self._is_stopped = self.session.uuid(f"turn {len(self.made)}"), False
        self._last_words = None
        self._event(at, "task_started", turn_id=self._turn, model_context_window=None)

    def _end(self, at: Sequence[int]) -> None:
        """Write the end of a turn, without which Codex shows it as interrupted."""
        if self._turn and not self._is_stopped:
            self._event(at, "task_complete", turn_id=self._turn, last_agent_message=self._last_words)

    def _settle(self, at: Sequence[int]) -> None:
        """Write the model of the answers that follow, if it has changed."""
        said = self.session.answer(at)
        model = (said.model if said is not None else "") or self.session.model
        if model and model != self._model:
            self._model = model
            sandbox = {"type": "read-only"}
            about = {"cwd": self.session.folder, "approval_policy": "on-request", "sandbox_policy": sandbox}
            turn = {"turn_id": self._turn} if self._turn else {}
            self._add("turn_context", at, {**turn, **about, "model": model, "summary": "auto"})

    def _count(self, at: Sequence[int]) -> None:
        """Write what the answer before has used, at its end."""
        before, self._answered = self._answered, tuple(at) if self.session.answer(at) else ()
        said = self.session.answer(before)
        if said is None or before == self._answered:
            return
        info: dict[str, Any] | None = None
        if (used := said.usage) is not None:
            self._total = [a + b for a, b in zip(self._total, _tokens(used), strict=True)]
            counted = zip(("total", "last"), (self._total, _tokens(used)), strict=True)
            info = {f"{name}_token_usage": dict(zip(_COUNTS, each, strict=True)) for name, each in counted}
            info["model_context_window"] = None
        self._event(before, "token_count", info=info, rate_limits=None)

    def _compacted(self, at: Sequence[int], summary: Message, history: Sequence[Body]) -> None:
        """Write a compaction, with the history that it leaves."""
        words = text_of(summary.parts)
        new = {"message": words, "replacement_history": [_as_recorded(item) for item in history]}
        self._add("compacted", at, new)
        self._event(at, "context_compacted")

    def _item(self, at: Sequence[int], item: Body) -> None:
        self._add("response_item", at, item)

    def _event(self, at: Sequence[int], type: str, **fields: Any) -> None:
        self._add("event_msg", at, {"type": type, **fields})

    def _add(self, type: str, at: Sequence[int], payload: Body) -> None:
        self.made.append({"timestamp": when(self.session.time(at)), "type": type, "payload": payload})


def _tokens(used: Usage) -> list[int]:
    return [used.input, used.cache_read, used.output, used.reasoning, used.input + used.output]


def _summary_at(messages: Sequence[Message]) -> int:
    """Return the index of the first summary, if only others' words precede it; else -1."""
    for index, message in enumerate(messages):
        if message.rule == "summary":
            return index
        if message.role not in ("user", "system"):
            break
    return -1


def _is_note_with_media(message: Message) -> bool:
    return message.role == "system" and bool(media(message))


def _as_recorded(item: Body, said: Sequence[str] = ()) -> Body:
    """Return an item as Codex keeps it: with content in parts, and with a text for each that was `said`."""
    content = item.get("content", item.get("output"))
    if isinstance(content, str) and len(said) > 1 and content == "\n".join(said):
        parts = [{"type": "input_text", "text": text} for text in said if text]
        return {**item, "output" if "output" in item else "content": parts}
    return _message(item["role"], content) if isinstance(content, str) and "content" in item else item


def _message(role: str, words: str) -> Body:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": words}]}
