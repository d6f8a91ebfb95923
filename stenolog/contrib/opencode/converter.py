"""A session of opencode and its sub-agents' as the events of one conversation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from itertools import groupby
from typing import Any

from stenolog import importers
from stenolog.events import UNCHANGED, AuthorKind, ModeSwitch
from stenolog.importers import Blobs, JsonObject, Record, as_dict, as_int, as_str, as_time
from stenolog.parts import ReasoningPart, TextPart

from .content import (
    ANSWERS,
    Unit,
    failure,
    is_read_aloud,
    model_of,
    result_parts,
    told_prompt,
    units,
    usage_of,
    user_part,
)
from .stored import SessionTree, Storage, StoredMessage, StoredSession, trees

_SHORT = 8
"""Characters of a session's id by which a sub-agent is named."""
_ABOUT = {"cwd": "directory", "project": "projectID", "version": "version"}
"""Names of the settings, and of a session's own facts."""


class OpenCode(importers.SessionConverter):
    """Converter of an opencode session's units."""

    system = "opencode"
    main = "opencode"

    def __init__(self, log: importers.ExistingLog, tree: SessionTree) -> None:
        super().__init__(log)
        self._tree = tree
        self._names = {session.id: self._name(session) for session in tree.sessions}
        self._prompts: dict[tuple[str, str], str] = {}
        """The calls that ran a session, by it and the words that they gave it."""
        self._emptied: set[int] = set()
        """Positions that compactions took out of context."""
        self._has_begun = False

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a piece of a message."""
        unit: Unit = record.value["unit"]
        if not self._has_begun:
            self._begin()
        self.time = as_time(unit.time or None, self.time)
        for part in unit.others:
            self.ignored[f"part/{as_str(part.get('type')) or 'unknown'}"] += 1
        take = {
            "user": self._user,
            "step": self._step,
            "result": self._result,
            "retry": self._retry,
            "error": self._error,
            "summary": self._summary,
        }
        take[unit.kind](unit)
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps left at the end of the session."""
        if self._has_begun:
            self._hide_reverted()
        return super().end()

    # Settings

    def _name(self, session: StoredSession) -> str:
        if session.id == self._tree.root.id:
            return self.main
        infos = (message.info for message in self._tree.messages[session.id])
        kind = next((name for info in infos if (name := _agent_in(info))), "agent")
        return importers.agent_called(f"{kind}-{session.id[-_SHORT:]}")

    def _begin(self) -> None:
        """Load the log's settings, and take out of context what the session has lost."""
        self._has_begun = True
        log, root = self.writer.log, self._tree.root
        self.setup.resume(log.settings, "")
        if log.head == 0:
            about = {name: as_str(root.info.get(theirs)) for name, theirs in _ABOUT.items()}
            self.setup.about(self.system, about)
        if root.title and not self._is_set_here("title"):
            self.setup.title = root.title
        if hidden := self._lost():
            self.setup.hides = importers.merged(
                (*(self.setup.hides or ()), *importers.position_ranges(hidden, set()))
            )
            self.setup.branches = self.setup.hides != log.settings.hides
        if log.head:
            self._settle_now("begin")

    def _settle_now(self, why: str) -> None:
        """Write settings that no message brings, under an id made of their content."""
        facts = f"{self.setup.title}\n{self.setup.hides}"
        self.setup.settle(
            f"{why}-{self.writer.log.head}-{sha256(facts.encode()).hexdigest()[:16]}", self.time
        )

    def _is_set_here(self, name: str) -> bool:
        own = (entry.event for entry in self.writer.log.own if entry.position > 1)
        return any(isinstance(event, ModeSwitch) and getattr(event, name) is not UNCHANGED for event in own)

    def _lost(self) -> list[int]:
        log = self.writer.log
        own = {entry.position for entry in log.own}
        return sorted(
            position
            for id, position in log.positions.items()
            if position not in own and ":settings" not in id and id.partition(":")[0] not in self._tree.ids
        )

    def _settings_of(self, unit: Unit) -> None:
        info, agent = unit.message.info, self._names[unit.session]
        if (mode := _agent_in(info)) and agent == self.main:
            self.setup.mode = mode
        if model := model_of(info):
            self.setup.card(agent, **model)
        prompt = info.get("system")
        wording = "\n\n".join(map(as_str, prompt)) if isinstance(prompt, list) else as_str(prompt)
        if wording:
            self.setup.card(agent, persona=wording)

    # What is said

    def _user(self, unit: Unit) -> None:
        """Write a person's words and opencode's additions, each under its author."""
        if unit.message.info.get("role") != "user":
            self.ignored[f"message/{unit.message.info.get('role')}"] += 1
            return
        self._settings_of(unit)
        blobs: Blobs = {}
        converted = [(part, user_part(part, blobs)) for part in unit.parts]
        for part, content in converted:
            if content is None:
                self.ignored[f"part/{as_str(part.get('type')) or 'unknown'}"] += 1
        spoken = [(part, content) for part, content in converted if content is not None]
        files = [part for part in unit.parts if is_read_aloud(part)]
        meta = {self.system: {"files": [_without_bytes(part) for part in files]}} if files else {}
        for (kind, is_shown), run in groupby(spoken, key=lambda each: _author(each[0])):
            found = list(run)
            wording = "\n".join(content.text for _, content in found if isinstance(content, TextPart))
            fields = self._brief(unit, wording) if kind == "person" else {}
            self.write_user(
                as_str(found[0][0]["id"]),
                [content for _, content in found],
                "agent" if fields else kind,
                message=unit.message.id,
                agent=self._names[unit.session] if unit.session != self._tree.root.id else "",
                blobs=blobs,
                in_context=is_shown,
                **fields,
                meta=meta,
            )
            meta = {}

    def _brief(self, unit: Unit, wording: str) -> dict[str, Any]:
        is_first = unit.message.id == self._tree.messages[unit.session][0].id
        call = self._prompts.get((unit.session, wording)) or self._prompts.get((unit.session, ""), "")
        is_brief = is_first or (unit.session, wording) in self._prompts
        if unit.session == self._tree.root.id or not is_brief:
            return {}
        placed = self.writer.find_call(call) if call else None
        return {"author": placed.agent if placed else self.main, "cause": placed.position if placed else None}

    def _step(self, unit: Unit) -> None:
        self._settings_of(unit)
        agent, info = self._names[unit.session], unit.message.info
        if not unit.parts and not unit.others:
            self.ignored["empty message"] += 1
        used = usage_of(unit.about) or (None if unit.number else usage_of(info))
        for part in unit.parts:
            if part.get("type") == "tool":
                run, prompt = told_prompt(part)
                call = as_str(part.get("callID"))
                self._prompts |= {(run, prompt): call, (run, ""): call} if run else {}
            content = ANSWERS.parts(part)
            if not content:
                continue
            answer = self.answer(
                as_str(part["id"]),
                content,
                agent=agent,
                model=model_of(info).get("model", ""),
                usage=used,
                finish_reason=as_str(unit.about.get("reason")) or as_str(info.get("finish")),
            )
            answer.source_id = f"{unit.message.id}:{unit.number}" if unit.number else unit.message.id
            self.add_part(as_str(part["id"]), answer)
        if unit.parts:
            self.note(unit.message.id, self.writer.here)

    def _result(self, unit: Unit) -> None:
        (part,) = unit.parts
        state = as_dict(part.get("state"))
        blobs: Blobs = {}
        took = as_int(as_dict(state.get("time")).get("end")) - as_int(as_dict(state.get("time")).get("start"))
        call_id = as_str(part.get("callID")) or as_str(part.get("id"))
        self.write_result(
            f"{unit.id}:result",
            call_id,
            result_parts(part, blobs),
            message=unit.message.id,
            agent=self._names[unit.session],
            name=as_str(part.get("tool")),
            blobs=blobs,
            is_error=state.get("status") == "error",
            duration_ms=took if took > 0 else None,
        )
        if as_dict(state.get("time")).get("compacted"):
            self._emptied |= {p for p in (self.writer.result_of(call_id),) if p}
            self.ignored["result cleared by a compaction"] += 1

    def _retry(self, unit: Unit) -> None:
        (part,) = unit.parts
        wording, category = failure(part.get("error"))
        attempt = as_int(part.get("attempt")) or 1
        agent = self._names[unit.session]
        self.write_error(unit.id, wording, category, message=unit.message.id, agent=agent, attempt=attempt)

    def _error(self, unit: Unit) -> None:
        self._settings_of(unit)
        wording, category = failure(unit.message.info.get("error"))
        self.write_error(
            f"{unit.message.id}:error",
            wording,
            category,
            ANSWERS.parts(unit.parts),
            message=unit.message.id,
            agent=self._names[unit.session],
            model=model_of(unit.message.info).get("model", ""),
            usage=usage_of(unit.about) or usage_of(unit.message.info),
        )

    # What leaves the context

    def _summary(self, unit: Unit) -> None:
        """Write a compaction: a summary in place of all before its tail."""
        spoken = [part for part in unit.parts if part.get("type") in ("text", "reasoning")]
        content = ANSWERS.parts(spoken)
        if not any(not isinstance(each, ReasoningPart) for each in content):
            self.ignored["unfinished summary" if not content else "empty summary"] += 1
            return
        self._settings_of(unit)
        used = usage_of(unit.message.info)
        if unit.session != self._tree.root.id:
            agent = self._names[unit.session]
            self.write_answer(unit.message.id, self.answer(unit.message.id, content, agent=agent, usage=used))
            self.decisions["compaction of a sub-agent as an answer"] += 1
            return
        before = list(self.in_context)
        tail = self._tail(unit)
        retained = before[before.index(tail) :] if tail in before else []
        model = model_of(unit.message.info).get("model", "")
        self._emptied.update(
            self.write_summary(unit.message.id, content, retained, role="summary", usage=used, model=model)
        )

    def _tail(self, unit: Unit) -> str:
        """Return the first message kept by a compaction, as its request says."""
        asked = as_str(unit.message.info.get("parentID"))
        messages: list[StoredMessage] = self._tree.messages[unit.session]
        parts = next((message.parts for message in messages if message.id == asked), [])
        return next((as_str(part["tail_start_id"]) for part in parts if part.get("tail_start_id")), "")

    def _hide_reverted(self) -> None:
        """Hide reverted messages, and show restored ones again."""
        first = as_str(as_dict(self._tree.root.info.get("revert")).get("messageID"))
        part = as_str(as_dict(self._tree.root.info.get("revert")).get("partID"))
        ids = [message.id for message in self._tree.messages[self._tree.root.id]]
        start = ids.index(first) + bool(part) if first in ids else len(ids)
        hidden = (
            {p for id in ids[start:] for p in self.positions.get(id, ())} | self._emptied | {*self._lost()}
        )
        if self._is_set_here("hides"):
            hidden |= _positions(self.setup.hides)
        if hidden != _positions(self.setup.hides):
            self.writer.close()
            self.setup.hides = importers.merged(importers.position_ranges(hidden, set())) or None
            self.setup.branches = True
            self.decisions["rewound"] += bool(start < len(ids))
            self._settle_now("revert")


def _agent_in(info: JsonObject) -> str:
    return as_str(info.get("agent")) or as_str(info.get("mode"))


def _author(part: JsonObject) -> tuple[AuthorKind, bool]:
    return "system" if part.get("synthetic") is True else "person", part.get("ignored") is not True


def _without_bytes(part: JsonObject) -> JsonObject:
    return {name: part[name] for name in ("filename", "mime", "source") if part.get(name)}


def _positions(spans: Any) -> set[int]:
    return {position for span in spans or () for position in range(span.first, span.last + 1)}


class _Records:
    """A session's units as records, iterable more than once."""

    def __init__(self, tree: SessionTree) -> None:
        self._tree = tree

    def __iter__(self) -> Iterator[Record]:
        for nth, unit in enumerate(units(self._tree), 1):
            yield Record(str(nth), {"unit": unit})


def conversations(storage: Storage) -> Iterator[importers.SourceConversation]:
    """Yield a conversation for each session that is no sub-agent's."""
    for tree in trees(storage):
        yield importers.SourceConversation(
            tree.root.id, _Records(tree), partial(OpenCode, tree=tree), unit="piece of a message"
        )
