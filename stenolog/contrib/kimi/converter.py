"""Records of a Kimi session's `wire.jsonl` as events."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from stenolog import AgentCard, importers
from stenolog.events import AuthorKind, Usage
from stenolog.importers import Blobs, Json, JsonObject, Record, as_dict, as_int, as_list, as_str, as_time
from stenolog.parts import AssistantPart, FilePart, ImagePart, ToolCall, UserPart

SYSTEM = "kimi"
_WIRE = "openai"
"""The API that Kimi speaks, in which its thoughts go back to it."""
_TURNED_TO = re.compile(r"\s*agent_id: (\S+)")
"""The beginning of a result by which a call names the sub-agent that it ran."""
_KINDS: Mapping[str, AuthorKind] = {
    "": "person",
    "user": "person",
    "cron_job": "schedule",
    "cron_missed": "schedule",
}
"""The kinds of authors, by the origins of messages; others are the program's."""


def _media(block: JsonObject, context: importers.BlockContext) -> ImagePart | FilePart | None:
    """Return a picture, a sound or a film; None for one that is in a file of its own."""
    kind = as_str(block.get("type")).removesuffix("_url")
    url = as_str(as_dict(block.get(f"{kind}_url") or block.get(f"{kind}Url")).get("url"))
    if (kept := importers.keep_data_url(url, context.blobs)) is not None:
        return importers.media_part(kept[0], blob=kept[1])
    return ImagePart(url=url) if kind == "image" and url.startswith("http") else None


_text = importers.text_maker()
_ANSWERS = importers.PartTable[AssistantPart](
    SYSTEM, {"text": _text, "think": importers.reasoning_maker(text="think", encrypted="encrypted")}
)
_INPUTS = importers.PartTable[UserPart](
    SYSTEM, {"text": _text, **dict.fromkeys(("image_url", "audio_url", "video_url"), _media)}
)


class Kimi(importers.SessionConverter):
    """Converter of a session; a record names its lane in `lane`, the main agent's if it has none."""

    system = main = SYSTEM
    provider = "kimi"

    def __init__(self, log: importers.ExistingLog, title: str = "") -> None:
        super().__init__(log)
        self.setup.title = importers.title_of(title) or None
        self._step = ""
        """The step whose answer waits for its tokens."""
        self._first = ""
        """The first record of the open step's answer."""
        self._asked: list[str] = []
        """The messages that a person can take back."""
        self._injected: set[str] = set()
        """The messages of the program, and summaries: they stay when a person takes one back."""
        self._history: list[str] = []
        """The messages as Kimi counts them; a step is there once more for each result of its calls."""
        self._started: dict[str, str] = {}
        """The calls that ran sub-agents, by the agents' ids."""
        self._prompts: dict[str, str] = {}
        """The prompts of sub-agents that have not spoken, by their calls."""
        self._is_compacting = False
        self._spent: Usage | None = None
        """The tokens of the compaction that is going on."""

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a record; an answer waits for its token count."""
        value = record.value
        self.time = as_time(value.get("time"), self.time)
        lane = as_str(value.get("lane"))
        agent, key = ("", f"#{record.line}") if lane in ("", self.main) else (lane, f"{lane}#{record.line}")
        kind, call = as_str(value.get("type")), as_str(value.get("call"))
        if agent and call and (prompt := self._prompts.pop(call, "")):
            self._brief(f"{key}:brief", agent, importers.text_parts(prompt), call)
        if kind == "context.append_loop_event":
            self._loop(key, agent, as_dict(value.get("event")))
        elif not self._settings(kind, agent, value):
            self._context(kind, key, agent, value)
        return [] if self._step else self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps left at the end of the file."""
        self._close()
        return super().end()

    def _settings(self, kind: str, agent: str, value: JsonObject) -> bool:
        """Read a record of settings; return whether it is one."""
        changes: dict[str, Any] = {}
        match kind:
            case "profile.bind" | "config.update":
                changes = {
                    "persona": as_str(value.get("systemPrompt")),
                    "model": as_str(value.get("modelAlias")),
                }
                where = value.get("cwd") or as_dict(value.get("environmentDisclosure")).get("cwd")
                about = {"cwd": as_str(where), "thinking": as_str(value.get("thinkingEffort"))}
                if not agent and (about := {name: fact for name, fact in about.items() if fact}):
                    self.setup.also(self.system, about)
            case "llm.request":
                changes = {"model": as_str(value.get("model")), "provider": as_str(value.get("provider"))}
                self._is_compacting = value.get("kind") == "compaction"
            case "llm.tools_snapshot":
                tools = [importers.read_tool(each) for each in as_list(value.get("tools"))]
                changes = {"tools": tuple(tool for tool in tools if tool.name)}
            case "plan_mode.enter" | "plan_mode.exit" | "plan_mode.cancel" if not agent:
                self.setup.mode = "plan" if kind == "plan_mode.enter" else "agent"
            case "permission.set_mode":
                self.setup.also(self.system, {"permissions": as_str(value.get("mode"))})
            case "usage.record" if self._is_compacting:
                self._spent, self._is_compacting = usage_of(value), False
            case _:
                return False
        if changes := {name: change for name, change in changes.items() if change}:
            self.setup.card(agent or self.main, **changes)
        return True

    def _context(self, kind: str, key: str, agent: str, value: JsonObject) -> None:
        match kind:
            case "context.append_message":
                self._close()
                self._message(key, agent, as_dict(value.get("message")))
            case "context.apply_compaction" if not agent:
                self._close()
                self._compact(key, value)
            case "context.undo" if not agent:
                self._close()
                self._undo(as_int(value.get("count")))
            case "context.clear" if not agent and self.writer.here:
                self._close()
                self.setup.context_from, self.setup.hides = self.writer.here + 1, None
                self.in_context, self._asked, self._history = {}, [], []
                self.decisions["context cleared"] += 1
            case "turn.cancel":
                self._fail(key, agent, "cancelled", "cancelled")
            case "turn.ended" if words := as_str(as_dict(value.get("error")).get("message")):
                self._fail(key, agent, words, importers.error_category(words))
            case _:
                self.ignored[kind or "record"] += 1

    def _message(self, key: str, agent: str, message: JsonObject) -> None:
        """Write a message of the context that is no step: a person's, or the program's."""
        blobs: Blobs = {}
        role, content = message.get("role"), message.get("content")
        origin = as_dict(message.get("origin"))
        self._count_message(key, agent)
        if origin.get("kind") == "injection":
            self._injected.add(key)
        if role == "assistant":
            said = [
                *_ANSWERS.parts(content, blobs, provider=_WIRE),
                *_calls(as_list(message.get("toolCalls"))),
            ]
            self.write_whole(key, said, agent=agent, blobs=blobs)
        elif role == "tool":
            failed = message.get("isError") is True
            call = as_str(message.get("toolCallId"))
            parts = _INPUTS.parts(content, blobs)
            self.write_result(key, call, parts, agent=agent, blobs=blobs, is_error=failed)
        elif not (parts := _INPUTS.parts(content, blobs)):
            self.ignored["empty message"] += 1
        elif origin.get("name") == "subagent" and agent:
            self._brief(key, agent, parts, self._started.get(agent, ""), blobs)
        else:
            kind = _KINDS.get(as_str(origin.get("kind")), "system")
            is_typed = kind == "person" or origin.get("trigger") == "user-slash"
            if role == "user" and is_typed and not agent:
                self._asked.append(key)
            self.write_user(key, parts, kind if role == "user" else "system", agent=agent, blobs=blobs)

    def _brief(self, key: str, agent: str, parts: list[Any], call: str, blobs: Blobs | None = None) -> None:
        self.setup.card(agent)
        placed = self.writer.find_call(call)
        cause = placed.position if placed else None
        self.write_user(key, parts, "agent", agent=agent, author=self.main, cause=cause, blobs=blobs)

    def _loop(self, key: str, agent: str, event: JsonObject) -> None:
        step = as_str(event.get("stepUuid")) or as_str(event.get("uuid"))
        match event.get("type"):
            case "step.begin":
                self._close()
            case "content.part":
                part = event.get("part")
                self._add(key, agent, step, _ANSWERS.parts(part, provider=_WIRE, key=key))
            case "tool.call":
                prompt = importers.object_in(event.get("args")).get("prompt")
                # JSON within JSON may have escapes of what cannot be stored.
                asked = as_str(prompt).encode(errors="replace").decode()
                self._prompts[as_str(event.get("toolCallId"))] = asked
                self._add(key, agent, step, _calls([event]))
            case "tool.result":
                self._result(key, agent, event)
            case "step.end":
                self._end_step(key, agent, step, event)
            case kind:
                self.ignored[f"loop/{kind}"] += 1

    def _add(self, key: str, agent: str, step: str, parts: list[AssistantPart]) -> None:
        if step != self._step:
            self._close()
        if self.writer.answer is None:
            self._first = key
        self._step = step
        self.add_part(key, self.answer(step, parts, agent=agent, model=self._model(agent)))

    def _model(self, agent: str) -> str:
        return self.setup.cards.get(agent or self.main, AgentCard()).model or ""

    def _note(self) -> None:
        if (answer := self.writer.answer) is not None:
            self.note(self._step, self.writer.here)
            self._count_message(self._step, answer.agent)

    def _count_message(self, id: str, agent: str) -> None:
        if agent in ("", self.main):
            self._history.append(id)

    def _close(self) -> None:
        self._note()
        self._step = ""

    def _end_step(self, key: str, agent: str, step: str, event: JsonObject) -> None:
        """Add the tokens to a step's answer, also if an earlier import wrote it without them."""
        used, finish = usage_of(event), as_str(event.get("finishReason"))
        ended = self.answer(step, [], agent=agent, model=self._model(agent), usage=used, finish_reason=finish)
        is_counted = (agent or self.main, step) in self.writer.log.used
        was_logged = self._first in self.writer.log.answers
        if self.writer.answer is not None or (used and was_logged and self._step == step and not is_counted):
            self.add_part(key, ended)
        elif used and self._step == step and not is_counted:
            self.writer.count(self._first, used)
        self._close()

    def _result(self, key: str, agent: str, event: JsonObject) -> None:
        self._note()
        blobs: Blobs = {}
        result, call = as_dict(event.get("result")), as_str(event.get("toolCallId"))
        parts = _INPUTS.parts(result.get("output") or as_str(result.get("message")), blobs)
        for part in parts:
            if found := _TURNED_TO.match(getattr(part, "text", "")):
                self._started[found[1]] = call
        failed = result.get("isError") is True
        self.write_result(key, call, parts, message=self._step, agent=agent, blobs=blobs, is_error=failed)
        self._count_message(self._step or key, agent)

    def _fail(self, key: str, agent: str, words: str, category: Any) -> None:
        self._close()
        self.write_error(key, words, category, agent=agent)

    def _undo(self, count: int) -> None:
        """Take back a person's last messages with all that followed them; none if they are not that many."""
        if not 0 < count <= len(self._asked):
            return
        self._asked, taken = self._asked[:-count], self._asked[-count:]
        ids = [*self.in_context]
        if taken[0] in ids:
            gone = {*ids[ids.index(taken[0]) :]} - self._injected
            self._history = [id for id in self._history if id not in gone]
            self.hide(gone)

    def _compact(self, key: str, value: JsonObject) -> None:
        """Write a summary; the first and last of a person's messages, or the last of all, stay."""
        asked = [id for id in self._asked if id in self.in_context]
        if "keptUserMessageCount" in value:
            head, kept = as_int(value.get("keptHeadUserMessageCount")), as_int(value["keptUserMessageCount"])
            retained: Collection[str] = {*asked[:head], *asked[len(asked) - max(kept - head, 0) :]}
        else:
            retained = self._history[as_int(value.get("compactedCount")) :]
        words = as_str(value.get("contextSummary")) or as_str(value.get("summary"))
        kept_ids = [id for id in self.in_context if id in retained]
        self.write_summary(key, importers.text_parts(words), kept_ids, usage=self._spent)
        # Kept words of a person are before the summary, where no undo goes; a tail is after it.
        is_tail = "keptUserMessageCount" not in value
        self._asked = [id for id in self._asked if is_tail and id in retained]
        self._injected.add(key)
        self._spent, self._history = None, [key, *(id for id in self._history if id in retained)]


def _calls(calls: Iterable[Json]) -> list[AssistantPart]:
    """Return the calls of a message, or of a loop event."""
    return [
        ToolCall(
            id=as_str(call.get("toolCallId")) or as_str(call.get("id")),
            name=as_str(call.get("name")),
            arguments=importers.arguments(call.get("args", call.get("arguments"))),
        )
        for call in map(as_dict, calls)
    ]


def usage_of(value: JsonObject) -> Usage | None:
    """Return a step's tokens; Kimi counts cached ones beside the input."""
    counted = as_dict(value.get("usage"))
    read, write = as_int(counted.get("inputCacheRead")), as_int(counted.get("inputCacheCreation"))
    sent, output = as_int(counted.get("inputOther")) + read + write, as_int(counted.get("output"))
    return Usage(input=sent, output=output, cache_read=read, cache_write=write) if sent or output else None
