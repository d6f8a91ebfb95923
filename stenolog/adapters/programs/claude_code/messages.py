"""User and assistant records of a Claude Code session as events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, groupby
from typing import Any, Literal, TypeAlias

from stenolog.adapters.importers.conversion.answers import Answer, PlacedCall
from stenolog.adapters.importers.conversion.event_writer import EventWriter
from stenolog.adapters.importers.conversion.settings_writer import SettingsWriter, settings_id
from stenolog.adapters.importers.conversion.steps import ExistingLog, merged, position_ranges
from stenolog.adapters.providers.failures import error_category
from stenolog.domain.events import AssistantMessage, ErrorCategory, LlmError, ToolResult, UserMessage
from stenolog.domain.parts import TextPart
from stenolog.domain.values import Origin, PositionRange
from stenolog.projections.formats.anthropic.read import (
    PROVIDER,
    assistant_part,
    blocks,
    result,
    usage,
    user_part,
)
from stenolog.projections.messages.json_fields import Blobs, as_dict, as_int, as_list, as_str, compact_json

from .branches import SubAgents, Tree
from .line import MAIN, SYNTHETIC, Line, by_system, title_of_prompt

USER = "user"
Block: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["person", "system", "result", "interrupted"]

_NOT_ASKED = "No response requested."
INTERRUPTED = re.compile(r"\[Request interrupted by user( for tool use)?\]")
_LOCAL_COMMAND = re.compile(r"\s*<command-name>")
"""A pattern for Claude Code's own commands: no prompts, so leaving their branch discards no message."""
_CLEARED = re.compile(r"\s*<command-name>/clear</command-name>")
_ABOUT_AGENTS = ("agentType", "description", "toolUseId", "spawnDepth")


class ClaudeMessages:
    """A session on its way into the log. `ignored` counts other records, `decisions` resolved doubts."""

    def __init__(self, log: ExistingLog) -> None:
        self.writer = EventWriter("claude-code", MAIN, log)
        self.setup = SettingsWriter(self.writer)
        self.setup.card(MAIN, provider=PROVIDER)
        self.agents = SubAgents(log.agents, log.ran, log.prompts, log.kinds)
        self.tree = Tree()
        self.ignored: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self._forget = False
        self._left: tuple[PositionRange, ...] = ()
        """The positions that are not on the path to the current turn."""
        self._emptied: list[tuple[int, tuple[PositionRange, ...]]] = []
        """The spans that compactions took out of context, each with the position after which that applies."""
        self._positions: dict[str, int] = {}
        """The positions of the main agent's messages, by the uuids of their records."""
        self._preserved: set[int] = set()
        """The positions that the next summary leaves in context."""
        self._causes: dict[str, tuple[str, int | None]] = {}
        """By agent, its last answer by the id in the file, and what that answers."""

    def source(self, line: Line, id: str = "") -> Origin:
        """Return an event's origin: its record, or its id there."""
        return self.writer.source(id or line.uuid, as_str(line.value.get("type")), line.key)

    def note(self, line: Line, *, begins: bool = False) -> None:
        """Remember the place of a record in the tree."""
        if line.uuid and line.agent == MAIN and line.uuid not in self.tree:
            self.tree.note(line.uuid, line.parent, begins=begins)

    def note_position(self, line: Line) -> None:
        """Remember the position of the last message read."""
        if line.uuid and line.agent == MAIN:
            self._positions[line.uuid] = self.writer.latest_position(line.key)

    def preserve(self, compaction: dict[str, Any]) -> None:
        """Note the messages that a compaction names as kept."""
        segment = as_dict(compaction.get("preservedSegment"))
        ends = [self._positions.get(as_str(segment.get(name))) for name in ("headUuid", "tailUuid")]
        known = [position for position in ends if position is not None]
        span = range(known[0], known[1] + 1) if len(known) == len(ends) else range(0)
        named = as_list(as_dict(compaction.get("preservedMessages")).get("uuids"))
        places = (self._positions.get(as_str(uuid)) for uuid in named)
        self._preserved = {*span, *(position for position in places if position is not None)}

    def resume(self, line: Line) -> None:
        """Load the log's settings in a sub-agent's file, before its first change."""
        if line.agent != MAIN and not self.setup.is_begun:
            self.setup.resume(self.writer.log.settings, settings_id(line.key))

    def settle(self, line: Line) -> None:
        """Write the settings for the next message of any author."""
        position = self.writer.here + 1
        self.resume(line)
        if line.agent == MAIN and (opened := self.tree.opens(line.parent)) is not None:
            self._forget = self._forget or self.tree.way(opened) == "reset"
            self.tree.current = opened
        if self._forget:
            self._forget = False
            self.setup.context_from, self.setup.hides, self._left = position, None, ()
            self.decisions["context cleared"] += 1
        self.tree.start(position)
        self.setup.settle(line.key, line.time)

    def note_agent(self, note: dict[str, Any]) -> None:
        """Note what a file beside a sub-agent's says; kept in `meta`."""
        call = as_str(note.get("toolUseId"))
        name = self.agents.describe(as_str(note.get("agentId")), as_str(note.get("agentType")), call)
        about = {key: note[key] for key in _ABOUT_AGENTS if note.get(key) not in (None, "")}
        self.setup.also("claude-code", {"agents": {name: about}})

    # What users say, and what is put into their mouths

    def user(self, line: Line, queued: str = "") -> None:
        """Read a user record; `queued` is the entry that kept its words."""
        content = blocks(line.message.get("content"))
        if not content:
            self.ignored["empty message"] += 1
            return self.note(line)
        if line.value.get("isCompactSummary"):
            return self._summary(line, content)
        kinds = [_kind(block, line) for block in content]
        typed = line.agent == MAIN and "person" in kinds and "result" not in kinds
        is_prompt = typed and not _any(_LOCAL_COMMAND, content)
        if is_prompt:
            self._turn_to(line)
            self._name_after(content)
        self.settle(line)
        if is_prompt:
            self.tree.prompt(line.uuid, self.writer.here + 1)
        self.note(line)
        for nth, (kind, run) in enumerate(_runs(kinds, content)):
            self._add_message(line, f"{line.key}:{nth}" if nth else line.key, kind, run, queued)
        if typed and _any(_CLEARED, content):
            self.tree.forget(line.uuid)
            self._forget = True
        return None

    def _name_after(self, content: list[Block]) -> None:
        if self.setup.title is None and (title := title_of_prompt(content)):
            self.setup.title = title

    def message(
        self,
        line: Line,
        id: str,
        kind: Kind,
        run: list[Block],
        *,
        in_context: bool = True,
        queued: str = "",
        about: dict[str, Any] | None = None,
    ) -> None:
        """Write a user message in the line's lane; `about` becomes its `meta`."""
        about = {**(about or {}), **({"queued": queued} if queued else {})}
        blobs: Blobs = {}
        by_agent = kind == "person" and line.agent != MAIN
        brief = self._briefed(line, id, run) if by_agent else None
        said = UserMessage(
            parts=tuple(user_part(block, blobs) for block in run),
            author=(brief.agent if brief else MAIN) if by_agent else "",
            cause=brief.position if brief else None,
            author_kind="system" if kind == "system" else "agent" if by_agent else "person",
            to=(line.agent,),
            in_context=in_context,
            meta={"claude-code": about} if about else {},
            source=self.source(line),
        )
        self.writer.write(said, id, line.time, blobs)

    def _briefed(self, line: Line, id: str, run: list[Block]) -> PlacedCall | None:
        call = line.call or self.agents.call_of(as_str(line.value.get("agentId")))
        words = as_str(run[0].get("text")) if len(run) == 1 else ""
        found = self.writer.find_call(call or self.agents.call_with(words))
        return found if found and found.position < self.writer.position_of(id) else None

    def _add_message(self, line: Line, id: str, kind: Kind, run: list[Block], queued: str) -> None:
        match kind:
            case "result":
                self._result(line, id, run[0])
            case "interrupted":
                words = as_str(run[0].get("text"))
                error = LlmError(
                    agent=line.agent,
                    category="cancelled",
                    message=words,
                    cause=self._question(line),
                    source=self.source(line),
                )
                self.writer.write(error, id, line.time)
            case _:
                self.message(line, id, kind, run, queued=queued)

    def _result(self, line: Line, id: str, block: Block) -> None:
        blobs: Blobs = {}
        read = result(block, blobs)
        call_id = read.call_id
        call = self.writer.closed(call_id)
        agent_id = as_str(as_dict(line.value.get("toolUseResult")).get("agentId"))
        self.agents.ran(agent_id, call_id)
        about: dict[str, Any] = {"agent": agent_id} if agent_id else {}
        if block.get("is_error") is False:  # an event has no other place for it, and it was sent
            about["is_error"] = False
        said = ToolResult(
            call_id=call_id,
            call=call.ref if call else None,
            to=() if call else (line.agent,),
            name=call.name if call else "",
            parts=read.parts,
            is_error=read.is_error,
            meta={"claude-code": about} if about else {},
            source=self.source(line, call_id),
        )
        self.writer.write(said, id, line.time, blobs)

    def _turn_to(self, line: Line) -> None:
        """Go to the turn that a prompt continues; entries off the way leave the context."""
        base = self.tree.base(line.parent) if "parentUuid" in line.value else self.tree.current
        way = self.tree.way(base)
        if way == "rewind":
            start, self._left = self.tree.hidden(base, self.writer.here)
            self.setup.context_from = start if start > 1 else None
            self._hide()
            self.setup.branches = True
            self.decisions["rewound"] += 1
        self._forget = self._forget or way == "reset"
        self.tree.current = base

    def _hide(self) -> None:
        """Hide entries out of context: of a rewind, and of compactions before it."""
        start = self.setup.context_from or 1
        holds = (spans for at, spans in self._emptied if at >= start and not any(at in s for s in self._left))
        self.setup.hides = merged((*self._left, *chain.from_iterable(holds))) or None

    def _take_out(self, positions: list[int]) -> None:
        if positions:
            self._emptied.append((self.writer.here, tuple(position_ranges(positions, set()))))
            self._hide()

    def microcompact(self, line: Line) -> None:
        """Write a microcompaction: some results are emptied, and requests have only the calls."""
        compacted = as_dict(line.value.get("microcompactMetadata"))
        ids = [as_str(id) for id in as_list(compacted.get("compactedToolIds"))]
        about = {name: as_int(compacted.get(name)) for name in ("preTokens", "tokensSaved")}
        self._take_out(sorted({position for id in ids if (position := self.writer.result_of(id))}))
        self.setup.also("claude-code", {"microcompact": {**about, "compactedToolIds": ids}})
        self.decisions["microcompaction"] += 1

    def _summary(self, line: Line, content: list[Block]) -> None:
        """Write a compaction: the main agent's summary replaces all that it could see.

        Open calls, which no summary may cover, leave the context.
        """
        main = line.agent == MAIN
        self._take_out(self.writer.open_calls(MAIN) if main else [])
        self.settle(line)
        self.note(line)
        hidden = {p for span in self.setup.hides or () for p in range(span.first, span.last + 1)}
        if main:
            hidden |= self.writer.with_calls(self._preserved)
            self._preserved = set()
        summary = AssistantMessage(
            agent=line.agent,
            purpose="summary",
            covers=self.writer.visible(self.setup.context_from or 1, hidden) if main else (),
            parts=tuple(TextPart(text=as_str(block.get("text")) or compact_json(block)) for block in content),
            to=(USER if main else line.agent,),
            source=self.source(line),
        )
        self.writer.write(summary, line.key, line.time)
        self.decisions["compaction as a summary"] += 1

    # What agents say

    def assistant(self, line: Line) -> None:
        """Read one record of an answer; an answer may have several."""
        content = blocks(line.message.get("content"))
        self.note(line)
        if not content:
            self.ignored["empty message"] += 1
        elif line.value.get("isApiErrorMessage") or as_str(line.message.get("model")) == SYNTHETIC:
            self.settle(line)
            self._synthetic(line, content)
        else:
            self._answer(line, content)

    def _synthetic(self, line: Line, content: list[Block]) -> None:
        """Write Claude Code's own words in place of an answer, such as a failure."""
        words = "\n".join(as_str(block.get("text")) for block in content)
        if words.strip() == _NOT_ASKED:
            self.message(line, line.key, "system", content, in_context=False)
        else:
            self.failed(line, words)

    def _cause(self, line: Line, source_id: str) -> int | None:
        """Return the position that an answer's parts answer; None without its parent."""
        last, cause = self._causes.get(line.agent, ("", None))
        if last != source_id:
            cause = self._question(line)
            self._causes[line.agent] = source_id, cause
        return cause

    def _question(self, line: Line) -> int | None:
        in_file = line.agent != MAIN or "parentUuid" not in line.value or line.parent in self.tree
        return self.writer.last_question(line.agent) if in_file else None

    def _answer(self, line: Line, content: list[Block]) -> None:
        message = line.message
        model = as_str(message.get("model"))
        source_id = as_str(message.get("id")) or line.key
        is_first = self.writer.starts_message(line.key, line.agent, source_id)
        if is_first:
            if model:
                self.setup.card(line.agent, model=model, provider=PROVIDER)
            self.settle(line)
        for block in content:
            self.agents.starts(as_str(block.get("id")), block.get("input"))
        heard = Answer(
            agent=line.agent,
            source_id=source_id,
            time=line.time,
            parts=[assistant_part(b, model, f"{line.key}-{nth}") for nth, b in enumerate(content)],
            to=(USER if line.agent == MAIN else line.agent,),
            model=model,
            finish_reason=as_str(message.get("stop_reason")),
            usage=usage(message.get("usage"), message.get("diagnostics")) if model else None,
            cause=self._cause(line, source_id) if is_first else None,
        )
        self.writer.add_part(line.key, heard)

    def refused(self, line: Line) -> None:
        """Write a refusal with its reason; the answers it took back leave the context."""
        value = line.value
        named = (self._positions.get(as_str(uuid)) for uuid in as_list(value.get("retractedMessageUuids")))
        # An answer that goes on in the file has its position already.
        self._take_out(sorted(self.writer.with_calls(position for position in named if position)))
        reasons = (as_str(value.get(name)) for name in ("apiRefusalCategory", "apiRefusalExplanation"))
        self.settle(line)
        self.failed(line, ": ".join(filter(None, reasons)) or as_str(value.get("content")), named="refused")

    def failed(
        self,
        line: Line,
        words: str,
        *,
        status: int = 0,
        attempt: int = 1,
        retry_in_ms: float | None = None,
        named: ErrorCategory | None = None,
    ) -> None:
        """Write a model call that failed."""
        error = LlmError(
            agent=line.agent,
            category=named or error_category(words, status),
            message=words,
            attempt=max(attempt, 1),
            retry_at=None if retry_in_ms is None else line.time + timedelta(milliseconds=retry_in_ms),
            cause=self._question(line),
            source=self.source(line),
        )
        self.writer.write(error, line.key, line.time)


def _any(pattern: re.Pattern[str], content: list[Block]) -> bool:
    return any(pattern.match(as_str(block.get("text"))) for block in content)


def _kind(block: Block, line: Line) -> Kind:
    words = as_str(block.get("text"))
    if block.get("type") == "tool_result":
        return "result"
    if INTERRUPTED.fullmatch(words.strip()):
        return "interrupted"
    return "system" if line.value.get("isMeta") or by_system(words) else "person"


def _runs(kinds: list[Kind], content: list[Block]) -> Iterator[tuple[Kind, list[Block]]]:
    for kind, run in groupby(zip(kinds, content, strict=True), key=lambda pair: pair[0]):
        found = [block for _, block in run]
        if kind in ("result", "interrupted"):
            yield from ((kind, [block]) for block in found)
        else:
            yield kind, found
