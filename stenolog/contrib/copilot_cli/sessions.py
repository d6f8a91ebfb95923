"""Sessions of Copilot CLI: `events.jsonl`, objects with `type` and `data`.

Source: `session-events.ts` of github/copilot-sdk.
"""

from __future__ import annotations

from typing import Any

from stenolog import importers
from stenolog.events import AuthorKind, Usage
from stenolog.importers import (
    Blobs,
    JsonObject,
    Record,
    as_dict,
    as_int,
    as_list,
    as_str,
    as_time,
    compact_json,
    text_parts,
)
from stenolog.parts import ReasoningPart

from .content import (
    PROVIDER,
    SessionEvent,
    SubAgents,
    assistant_parts,
    category_of,
    described,
    is_event,
    media,
    name_of,
    result_parts,
    runs,
    session_of,
)

_ENDING = frozenset(
    (
        "user.message",
        "assistant.turn_end",
        "tool.execution_complete",
        "abort",
        "session.error",
        "session.resume",
        "session.shutdown",
    )
)
"""Events after which no answer repeats the reasoning before them."""
_PLACE = {"cwd": "cwd", "branch": "branch", "headCommit": "commit", "repository": "repository"}
"""The facts about the working folder, and the names that the settings have for them."""


class CopilotCli(importers.SessionConverter):
    """Converter of a Copilot CLI session."""

    system = "copilot-cli"
    main = "copilot"

    def __init__(self, log: importers.ExistingLog) -> None:
        super().__init__(log)
        self._contents: dict[str, int] = {}
        self._order: dict[str, str] = {}
        """The key of each record by its id, in order."""
        self._agents = SubAgents()
        self._assets: dict[str, str] = {}
        self._thoughts: dict[str, SessionEvent] = {}
        """The last reasoning of each agent, which its next answer may repeat."""
        self._reasoned: dict[str, str] = {}
        """The reasoning in the last answer of each agent."""
        self._compacting = False
        self._recent = ""
        """The first message that came while a compaction was running."""

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a record."""
        value = record.value
        self.time = as_time(value.get("timestamp"), self.time)
        own = importers.key_of(as_str(value.get("id")))
        content = hash(compact_json(value))
        if own and self._contents.get(own) == content:
            self.ignored["repeated record"] += 1
            return []
        key = own if own and own not in self._contents else f"{own}#{record.line}"
        self._contents[own] = content
        self._order[own] = key
        event = SessionEvent(key, value, self._lane(value))
        if event.kind in _ENDING:
            self._write_thought(event.agent)
        self._take(event)
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the remaining steps; reasoning waits for the answer that repeats it."""
        if self._thoughts:
            self.ignored["reasoning without an answer yet"] += len(self._thoughts)
        return super().end()

    def _lane(self, value: JsonObject) -> str:
        data = as_dict(value.get("data"))
        id = as_str(value.get("agentId")) or as_str(data.get("parentToolCallId"))
        return self._agents.name(id) if id else self.main

    def _take(self, event: SessionEvent) -> None:
        match event.kind:
            case "session.start" | "session.resume" | "session.context_changed":
                self._note_folder(event)
            case "system.message":
                self._prompt(event)
            case "user.message":
                self._user(event)
            case "assistant.message":
                self._answer(event)
            case "assistant.reasoning":
                self._write_thought(event.agent)
                if as_str(event.data.get("content")) in ("", self._reasoned.get(event.agent)):
                    self.ignored["repeated reasoning"] += 1
                else:
                    self._thoughts[event.agent] = event
            case "tool.execution_complete":
                self._result(event)
            case "tool.user_requested":
                wording = (
                    f"{as_str(event.data.get('toolName'))} {importers.arguments(event.data.get('arguments'))}"
                )
                self.write_user(event.key, text_parts(wording), role=event.kind, agent=self._sub(event))
            case "system.notification" if as_str(event.data.get("content")):
                wording = as_str(event.data["content"])
                self.write_user(
                    event.key, text_parts(wording), "system", role=event.kind, agent=self._sub(event)
                )
            case "session.handoff":
                self._hand_off(event)
            case "abort" | "session.error" | "model.call_failure" | "subagent.failed":
                self._fail(event)
            case _:
                self._change(event)

    def _change(self, event: SessionEvent) -> None:
        """Take an event that says nothing itself: settings, and what leaves the context."""
        data = event.data
        match event.kind:
            case "session.model_change":
                if effort := as_str(data.get("reasoningEffort")):
                    self.setup.also(self.system, {"effort": effort})
                if model := as_str(data.get("newModel")):
                    self.setup.card(self.main, model=model)
            case "session.mode_changed":
                self._mode(as_str(data.get("newMode")))
            case "session.title_changed":
                self.setup.title = importers.title_of(as_str(data.get("title"))) or self.setup.title
            case "session.binary_asset":
                self._assets[as_str(data.get("assetId"))] = as_str(data.get("data"))
            case "session.compaction_start":
                self._compacting, self._recent = True, ""
            case "session.compaction_complete":
                self._compact(event)
            case "session.snapshot_rewind":
                self._rewind(event)
            case "session.context_cleared":
                self._clear(event)
            case "subagent.started":
                self._start(event)
            case _:
                pass
        self.ignored[event.kind or "record"] += 1

    def _sub(self, event: SessionEvent) -> str:
        return event.agent if event.agent != self.main else ""

    # Settings

    def _note_folder(self, event: SessionEvent) -> None:
        data = event.data
        context = as_dict(data.get("context")) or data
        facts = {name: as_str(context.get(theirs)) for theirs, name in _PLACE.items()}
        self.setup.about(self.system, {**facts, "version": as_str(data.get("copilotVersion"))})
        if model := as_str(data.get("selectedModel")):
            self.setup.card(self.main, model=model)
        self.ignored[event.kind] += 1

    def _prompt(self, event: SessionEvent) -> None:
        wording = as_str(event.data.get("content"))
        if event.data.get("role") == "developer":
            self.write_user(
                event.key, text_parts(wording), "system", role="developer", agent=self._sub(event)
            )
        elif wording:
            self.setup.card(event.agent, persona=wording)

    def _mode(self, mode: str) -> None:
        if mode and mode != "shell":  # a mode of the screen
            self.setup.mode = mode

    # What is said

    def _user(self, event: SessionEvent) -> None:
        data, sub = event.data, self._sub(event)
        self._mode(as_str(data.get("agentMode")))
        if sub and as_str(data.get("content")) in self._agents.prompts.values():
            self.ignored["repeated brief"] += 1
            return
        blobs: Blobs = {}
        pictures = media(data.get("attachments"), self._assets, blobs)
        attached = described(data.get("attachments"))
        meta = {self.system: {"attachments": attached}} if attached else {}
        found = runs(data)
        typed = next((nth for nth, run in enumerate(found) if run.kind != "system"), len(found) - 1)
        if not found and (pictures or meta):
            self.write_user(event.key, pictures, agent=sub, blobs=blobs, meta=meta)
        elif not found:
            self.ignored["empty message"] += 1
        for nth, run in enumerate(found):
            id = f"{event.key}:{nth}" if nth else event.key
            fields = self._brief_fields(event) if sub and run.kind == "person" else {}
            kind: AuthorKind = "agent" if fields else run.kind
            if nth == typed:
                parts = [*text_parts(run.text), *pictures]
                fields |= {"blobs": blobs, "meta": meta}
            else:
                parts = [*text_parts(run.text)]
            self.write_user(id, parts, kind, message=event.key, agent=sub, **fields)
        self._keep_recent(event)

    def _brief_fields(self, event: SessionEvent) -> dict[str, Any]:
        ids = self._agents.ids_of(event.agent)
        placed = next((call for id in ids if (call := self.writer.find_call(id))), None)
        return {
            "author": placed.agent if placed else self.main,
            "cause": placed.position if placed else None,
        }

    def _answer(self, event: SessionEvent) -> None:
        data = event.data
        thought = self._thoughts.pop(event.agent, None)
        wording = as_str(thought.data.get("content")) if thought else ""
        parts = assistant_parts(data, wording, event.key)
        if not parts:
            self.ignored["empty message"] += 1
            return
        for request in map(as_dict, as_list(data.get("toolRequests"))):
            self._agents.call(request)
        output = as_int(data.get("outputTokens"))
        model = as_str(data.get("model"))
        used = Usage(output=output) if output else None
        answer = self.answer(event.key, parts, agent=event.agent, model=model, usage=used)
        chunks = as_int(data.get("chunkCount")) > 1
        answer.source_id = as_str(data.get("apiCallId" if chunks else "messageId")) or event.key
        self.write_answer(event.key, answer)
        self._reasoned[event.agent] = as_str(data.get("reasoningText"))
        self._keep_recent(event)

    def _write_thought(self, agent: str) -> None:
        if (event := self._thoughts.pop(agent, None)) is not None:
            part = ReasoningPart(text=as_str(event.data.get("content")), provider=PROVIDER)
            self.write_answer(event.key, self.answer(event.key, [part], agent=agent))

    def _result(self, event: SessionEvent) -> None:
        data = event.data
        blobs: Blobs = {}
        self.write_result(
            event.key,
            as_str(data.get("toolCallId")),
            result_parts(data, self._assets, blobs),
            agent=event.agent,
            blobs=blobs,
            is_error=data.get("success") is False,
        )

    def _fail(self, event: SessionEvent) -> None:
        data = event.data
        agent = event.agent
        if event.kind == "subagent.failed":
            agent = self._agents.name(as_str(data.get("toolCallId")), as_str(data.get("agentName")))
        wording = event.text("message", "errorMessage", "error", "reason") or event.kind
        category = "cancelled" if event.kind == "abort" else category_of(data, wording)
        model = as_str(data.get("model"))
        self.write_error(event.key, wording, category, agent=agent, model=model)

    def _hand_off(self, event: SessionEvent) -> None:
        facts = (as_str(event.data.get(name)) for name in ("context", "summary"))
        if wording := "\n\n".join(filter(None, facts)):
            self.write_user(event.key, text_parts(wording), "system", role=event.kind)

    def _start(self, event: SessionEvent) -> None:
        data = event.data
        call = as_str(data.get("toolCallId"))
        name = self._agents.name(call, as_str(data.get("agentName")))
        if event.agent != self.main:
            self._agents.rename(event.agent, name)
        if model := as_str(data.get("model")):
            self.setup.card(name, model=model)
        placed = self.writer.find_call(call)
        if placed is not None and (prompt := self._agents.prompts.get(call, "")):
            fields: dict[str, Any] = {"author": placed.agent, "cause": placed.position}
            self.write_user(event.key, text_parts(prompt), "agent", role=event.kind, agent=name, **fields)

    # What leaves the context

    def _keep_recent(self, event: SessionEvent) -> None:
        if self._compacting and event.agent == self.main:
            self._recent = self._recent or event.key

    def _compact(self, event: SessionEvent) -> None:
        wording = as_str(event.data.get("summaryContent"))
        ids = list(self.in_context)
        retained = ids[ids.index(self._recent) :] if self._recent in ids else []
        self._compacting, self._recent = False, ""
        if event.data.get("success") is not False and wording:
            self.write_summary(event.key, text_parts(wording), retained, role=event.kind)

    def _rewind(self, event: SessionEvent) -> None:
        """Take out of context what came after a record, which the file may have lost."""
        first = importers.key_of(as_str(event.data.get("upToEventId")))
        keys = list(self._order.values())
        start = keys.index(self._order[first]) if first in self._order else len(keys)
        behind = {*keys[start:]}
        hidden = [p for id in self.in_context if id in behind for p in self.positions[id]]
        self.in_context = {id: None for id in self.in_context if id not in behind}
        self.hide_positions([*hidden, *self.vanished(event.key)])
        # The switch is written in any case: a later import tells by it what came before the rewind.
        self.setup.also(self.system, {"rewound": first or event.key})
        self.setup.settle(event.key, self.time)

    def _clear(self, event: SessionEvent) -> None:
        if self.writer.here:
            self.setup.context_from, self.setup.hides = self.writer.here + 1, None
            self.in_context = {}
            self.decisions["context cleared"] += 1
            self.setup.settle(event.key, self.time)


COPILOT_CLI = importers.Importer(
    "copilot-cli",
    lines=importers.LineFormat(CopilotCli, session_of),
    is_record=is_event,
    name_of=name_of,
)
