"""Sessions as files that `claude --resume` goes on with.

Each record follows the one before it: the program reads back from the last. An answer is a record for each
of its blocks, with one message id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from stenolog.adapters.conversation.queries.exporters import Exporter
from stenolog.adapters.conversation.queries.plain_json import when
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import Usage
from stenolog.projections.formats.anthropic.write import NAME
from stenolog.projections.formats.body_builder import media
from stenolog.projections.messages.explanation import RequestPart
from stenolog.projections.messages.json_fields import as_str
from stenolog.projections.messages.message import DEFAULT_MODEL, Body, Message, Rendered
from stenolog.projections.moments.session import STOPPED, WRITTEN, AgentSession, SessionFile, as_lines

from . import COMMAND, PROGRAM
from .line import SYNTHETIC, by_system
from .messages import INTERRUPTED

VERSION = "2.1.197"
"""The version of Claude Code whose records these are."""
_STOPS = frozenset({"end_turn", "max_tokens", "pause_turn", "refusal", "stop_sequence", "tool_use"})
_STOPPED = "[Request interrupted by user]"


def write_session(session: AgentSession) -> SessionFile:
    """Return an agent's session in Claude Code's form."""
    records = _Lines(session)
    records.write()
    folder = re.sub(r"[^A-Za-z0-9]", "-", session.folder)
    return SessionFile(
        session.id,
        as_lines(records.made),
        f"{folder}/{session.id}.jsonl",
        (COMMAND, "--resume", session.id),
        records.notes,
    )


TO_CLAUDE_CODE = Exporter(
    PROGRAM.name, "a session that Claude Code resumes", of_one_agent=True, write_session=write_session
)


class _Lines:
    """The records of a session, each after the one before."""

    def __init__(self, session: AgentSession) -> None:
        self.session = session
        self.made: list[Body] = []
        self.notes: tuple[str, ...] = ()
        self._parent: str | None = None
        self._lost: list[tuple[str, Sequence[int]]] = []

    def write(self) -> None:
        session = self.session
        messages = [*session.messages]
        if messages[0].rule == "summary":
            messages[0] = session.as_summary(messages[0])
        later = [("late-summary", each.positions) for each in messages[1:] if each.rule == "summary"]
        split = [one for each in messages for one in _split(each)]
        rendered = session.rendered(NAME, split)
        said: dict[int, list[RequestPart]] = {}
        for part in rendered.parts:
            said.setdefault(part.message, []).append(part)
        rules = {(each.positions, each.role == "assistant"): each.rule for each in messages}
        for index, turn in enumerate(rendered.body["messages"]):
            blocks = zip(said[index], turn["content"], strict=True)
            for (positions, role), run in groupby(blocks, key=lambda each: (each[0].positions, each[0].role)):
                found = [*run]
                rule = found[0][0].rule
                if rule in WRITTEN:
                    rule = rules.get((positions, role == "assistant"), rule)
                self._say(rule, role, positions, [block for _, block in found])
        if session.title:
            self.made.append({"type": "custom-title", "customTitle": session.title, "sessionId": session.id})
        later += [("media-as-text", each.positions) for each in messages if each.failed and media(each)]
        self._lost += [*later, *_unsaid(split, rendered)]
        self.notes = session.lacks(self._lost, rendered)

    def _say(self, rule: str, role: str, positions: Sequence[int], blocks: list[Body]) -> None:
        error = self.session.failure(rule, positions)
        if role == "assistant":
            self._answer(positions, blocks)
        elif role == "tool":
            for block in blocks:
                self._add("user", positions, message={"role": "user", "content": [block]})
        elif error is not None and rule in STOPPED:
            is_own = INTERRUPTED.fullmatch(error.message.strip())
            self._lost += [] if is_own else [("stopped", positions)]
            words = error.message if is_own else _STOPPED
            self._user(positions, [{"type": "text", "text": words}])
        elif error is not None:
            self._lost.append(("shown-only", positions))
            self._failed(positions, error.message.strip() or error.category)
        elif rule == "summary" and not self.made:
            self._add(
                "system",
                positions,
                subtype="compact_boundary",
                content="Conversation compacted",
                level="info",
                compactMetadata={"trigger": "manual", "preTokens": 0},
            )
            self._user(positions, blocks, isVisibleInTranscriptOnly=True, isCompactSummary=True)
        else:
            is_note = rule == "system-note"
            if not is_note and any(by_system(as_str(block.get("text"))) for block in blocks):
                self._lost.append(("taken-for-program", positions))
            self._user(positions, blocks, **({"isMeta": True} if is_note else {}))

    def _user(self, positions: Sequence[int], blocks: list[Body], **marks: Any) -> None:
        is_text = len(blocks) == 1 and [*blocks[0]] == ["type", "text"]
        content = blocks[0]["text"] if is_text else blocks
        self._add("user", positions, message={"role": "user", "content": content}, **marks)

    def _answer(self, positions: Sequence[int], blocks: Iterable[Body]) -> None:
        said = self.session.answer(positions)
        stop = said.finish_reason if said is not None else ""
        message = {
            "id": f"msg_{self.session.uuid(f'answer {positions}').replace('-', '')[:24]}",
            "type": "message",
            "role": "assistant",
            "model": (said.model if said is not None else "") or DEFAULT_MODEL,
            "stop_reason": stop if stop in _STOPS else None,
            "stop_sequence": None,
            "usage": _usage(said.usage if said is not None else None),
        }
        for block in blocks:
            self._add("assistant", positions, message={**message, "content": [block]})

    def _failed(self, positions: Sequence[int], words: str) -> None:
        message = {
            "id": self.session.uuid(f"error {positions}"),
            "type": "message",
            "role": "assistant",
            "model": SYNTHETIC,
            "stop_reason": "stop_sequence",
            "stop_sequence": "",
            "usage": _usage(None),
            "content": [{"type": "text", "text": words}],
        }
        self._add("assistant", positions, message=message, isApiErrorMessage=True)

    def _add(self, type: str, positions: Sequence[int], **fields: Any) -> None:
        session, uuid = self.session, self.session.uuid(len(self.made))
        self.made.append(
            {
                "parentUuid": self._parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": session.folder,
                "sessionId": session.id,
                "version": VERSION,
                "gitBranch": session.branch,
                "type": type,
                **fields,
                "uuid": uuid,
                "timestamp": when(session.time(positions)),
            }
        )
        self._parent = uuid


def _split(message: Message) -> Iterator[Message]:
    """Yield a message for each part, so that each becomes one block."""
    message = message._replace(role="user" if message.role == "system" else message.role)
    if message.role == "tool":
        yield message
        return
    calls = iter(message.calls)
    for part in message.parts:
        own = (next(calls),) if message.calls and isinstance(part, ToolCall) else ()
        yield message._replace(parts=(part,), calls=own)


def _unsaid(messages: Iterable[Message], rendered: Rendered) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield the users' messages whose opaque parts have become no block."""
    said = Counter(part.positions for part in rendered.parts if part.role == "user")
    parts = Counter(each.positions for each in messages if each.role == "user")
    yield from (("opaque-not-carried", at) for at, number in parts.items() if number > said[at])


def _usage(used: Usage | None) -> Body:
    counted = used or Usage()
    return {
        "input_tokens": counted.input - counted.cache_read - counted.cache_write,
        "cache_creation_input_tokens": counted.cache_write,
        "cache_read_input_tokens": counted.cache_read,
        "output_tokens": counted.output,
    }
