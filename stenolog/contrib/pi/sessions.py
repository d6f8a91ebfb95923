"""Sessions of pi and OpenClaw: JSON Lines, since version 2 with ids and parents.

Source: packages/coding-agent of badlogic/pi-mono.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from stenolog import importers
from stenolog.events import Usage
from stenolog.importers import Blobs, Json, JsonObject, Record, as_dict, as_int, as_str, as_time
from stenolog.parts import AssistantPart, ReasoningPart, TextPart, ToolCall, UserPart

_PROVIDERS = {"anthropic": "anthropic", "bedrock": "anthropic", "google": "gemini", "openai": "openai"}
"""Providers of signatures and ciphertexts, by the first word of pi's names of APIs."""


def provider_of(message: JsonObject) -> str:
    """Return an answer's provider; for an API of several providers, its own name."""
    api = as_str(message.get("api"))
    if api == "openai-completions":
        return as_str(message.get("provider"))
    return _PROVIDERS.get(api.split("-")[0], as_str(message.get("provider")))


def _text(block: JsonObject, _: importers.BlockContext) -> TextPart | None:
    phase = as_str(importers.object_in(block.get("textSignature")).get("phase"))
    return TextPart(text=block["text"], phase=phase) if isinstance(block.get("text"), str) else None


def _call(block: JsonObject, context: importers.BlockContext) -> list[AssistantPart] | None:
    if not isinstance(name := block.get("name"), str):
        return None
    # A call that was cut off has only the beginning of its arguments, as text.
    raw = as_str(block.get("partialJson")) or importers.arguments(block.get("arguments"))
    call = ToolCall(id=as_str(block.get("id")) or context.id, name=name, arguments=raw)
    signature = as_str(block.get("thoughtSignature"))
    return [ReasoningPart(provider=context.provider, signature=signature), call] if signature else [call]


def _reasoning(block: JsonObject, context: importers.BlockContext) -> ReasoningPart | None:
    """Return a thought with its proof, which each API has in another form."""
    text, signature, provider = (
        block.get("thinking"),
        as_str(block.get("thinkingSignature")),
        context.provider,
    )
    if not isinstance(text, str):
        return None
    if provider == "openai" and (item := importers.object_in(signature)):
        encrypted = as_str(item.get("encrypted_content"))
        return ReasoningPart(text=text, provider=provider, id=as_str(item.get("id")), encrypted=encrypted)
    if block.get("redacted") is True:
        return ReasoningPart(text=text, provider=provider, encrypted=signature)
    # Elsewhere the field has the name that the provider gives its thoughts.
    proof = signature if provider in ("anthropic", "gemini") else ""
    return ReasoningPart(text=text, provider=provider, signature=proof)


_ANSWERS = importers.PartTable[AssistantPart](
    "pi", {"text": _text, "thinking": _reasoning, "toolCall": _call}
)
INPUTS = importers.PartTable[UserPart](
    "pi", {"text": importers.text_maker(), "image": importers.media_maker()}
)
"""Makers of a message by the user, and of a tool's output."""


def usage_of(message: JsonObject) -> Usage | None:
    """Return an answer's tokens; pi counts cached ones beside the input."""
    counted = as_dict(message.get("usage"))
    read, write = as_int(counted.get("cacheRead")), as_int(counted.get("cacheWrite"))
    sent, output = as_int(counted.get("input")) + read + write, as_int(counted.get("output"))
    if not (sent or output):
        return None
    total = as_dict(counted.get("cost")).get("total")
    return Usage(
        input=sent, output=output, cache_read=read, cache_write=write, cost=importers.micro_dollars(total)
    )


def shell_text(message: JsonObject) -> str:
    """Return a person's command and its output in the words that pi sends the model."""
    output, code = as_str(message.get("output")), message.get("exitCode")
    wording = f"Ran `{as_str(message.get('command'))}`\n" + (
        f"```\n{output}\n```" if output else "(no output)"
    )
    if message.get("cancelled") is True:
        wording += "\n\n(command cancelled)"
    elif isinstance(code, int) and code:
        wording += f"\n\nCommand exited with code {code}"
    if message.get("truncated") is True and (path := as_str(message.get("fullOutputPath"))):
        wording += f"\n\n[Output truncated. Full output: {path}]"
    return wording


_ABOUT = ("cwd", "parentSession", "branchedFrom")
_BY_SYSTEM = ("custom", "hookMessage", "system", "developer")
"""The roles of messages that an extension or the program writes in the user's name."""


class Pi(importers.SessionConverter):
    """Converter of a pi session."""

    system = "pi"
    main = "pi"

    def __init__(self, log: importers.ExistingLog) -> None:
        super().__init__(log)
        self._tree = RecordTree()
        self._number = -1
        self._emptied: list[tuple[str, list[int]]] = []
        """Calls without a result that left the context, with the summary for which they did."""

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a record."""
        value = record.value
        self._number += 1
        self.time = as_time(value.get("timestamp"), self.time)
        kind = as_str(value.get("type"))
        if kind == "session":
            self._begin(value)
            return self.writer.drain()
        own = importers.key_of(as_str(value.get("id")))
        if own and own in self._tree:
            self.ignored["repeated record"] += 1
            return self.writer.drain()
        id = own or f"#{record.line}"
        self._follow(value)
        self._tree.add(id, _parent(value, self._tree), self._number)
        self._take(id, kind, value)
        return self.writer.drain()

    def _begin(self, value: JsonObject) -> None:
        """Read a session's head; fields that it lacks stay unchanged."""
        facts = {name: as_str(value.get(name)) for name in _ABOUT}
        self.setup.about(self.system, {**facts, "thinking": as_str(value.get("thinkingLevel"))})
        self._model(as_str(value.get("provider")), as_str(value.get("modelId")))

    def _model(self, provider: str, model: str) -> None:
        if model:
            self.setup.card(self.main, model=model, provider=provider)

    def _follow(self, value: JsonObject) -> None:
        """Leave a branch that the record is not on: the user went back."""
        parent = _parent(value, self._tree)
        if not self._tree.leaves(parent):
            return
        path, context = self._tree.path(parent or "", self.positions)
        left = [id for id in self.in_context if id not in context]
        back = [id for id in context if id not in self.in_context]
        self.in_context = dict.fromkeys(context)
        if not (left or back):
            return
        self.writer.close()
        is_shown = {position for id in path for position in self.positions[id]}
        hidden = {position for each in self.positions.values() for position in each} - is_shown
        hidden |= {p for id, emptied in self._emptied if id in self.in_context for p in emptied}
        self.setup.hides = self.writer.ranges(hidden) or None
        self.setup.branches = True
        self.decisions["rewound"] += 1

    def _take(self, id: str, kind: str, value: JsonObject) -> None:
        match kind:
            case "message":
                self._message(id, as_dict(value.get("message")))
            case "custom_message":
                self._injected(id, value)
            case "branch_summary" if as_str(value.get("summary")):
                self.write_user(
                    id, importers.text_parts(value["summary"]), "system", meta=self._meta(value, "fromId")
                )
            case "compaction" if as_str(value.get("summary")):
                self._compact(id, value)
            case "model_change":
                self.ignored[kind] += 1
                self._model(as_str(value.get("provider")), as_str(value.get("modelId")))
            case "thinking_level_change":
                self.ignored[kind] += 1
                self.setup.also(self.system, {"thinking": as_str(value.get("thinkingLevel"))})
            case "session_info":
                self.ignored[kind] += 1
                self.setup.title = importers.title_of(as_str(value.get("name"))) or self.setup.title
            case _:
                self.ignored[kind or "record"] += 1

    def _message(self, id: str, message: JsonObject) -> None:
        role = as_str(message.get("role"))
        blobs: Blobs = {}
        match role:
            case "user":
                self._user(id, INPUTS.parts(message.get("content"), blobs), blobs)
            case "assistant":
                self._answer(id, message)
            case "toolResult":
                parts = INPUTS.parts(message.get("content"), blobs)
                name, call = as_str(message.get("toolName")), as_str(message.get("toolCallId"))
                failed = message.get("isError") is True
                self.write_result(id, call, parts, name=name, blobs=blobs, is_error=failed)
            case "bashExecution":
                is_shown = message.get("excludeFromContext") is not True
                self.write_user(id, importers.text_parts(shell_text(message)), role=role, in_context=is_shown)
            case "compactionSummary" if as_str(message.get("summary")):
                self._compact(id, message)
            case "branchSummary" if as_str(message.get("summary")):
                self.write_user(id, importers.text_parts(message["summary"]), "system", role=role)
            case _ if role in _BY_SYSTEM:
                self._injected(id, message)
            case _:
                self.ignored[f"message/{role}"] += 1

    def _user(self, id: str, parts: list[Any], blobs: Blobs) -> None:
        if parts:
            self.write_user(id, parts, blobs=blobs)
        else:
            self.ignored["empty message"] += 1

    def _injected(self, id: str, message: JsonObject) -> None:
        blobs: Blobs = {}
        parts = INPUTS.parts(message.get("content"), blobs)
        author = as_str(message.get("customType"))
        role = as_str(message.get("role")) or "custom"
        if parts:
            self.write_user(id, parts, "system", role=role, blobs=blobs, author=author)
        else:
            self.ignored["empty message"] += 1

    def _answer(self, id: str, message: JsonObject) -> None:
        parts = _ANSWERS.parts(message.get("content"), provider=provider_of(message), key=id)
        stopped = as_str(message.get("stopReason"))
        model, used = as_str(message.get("model")), usage_of(message)
        self._model(as_str(message.get("provider")), model)
        if stopped in ("error", "aborted"):
            wording = as_str(message.get("errorMessage")) or stopped
            category = "cancelled" if stopped == "aborted" else importers.error_category(wording)
            self.write_error(id, wording, category, parts, model=model, usage=used)
        elif parts:
            answer = self.answer(id, parts, model=model, usage=used, finish_reason=stopped)
            self.write_answer(id, answer)
        else:
            self.ignored["empty message"] += 1

    def _compact(self, id: str, value: JsonObject) -> None:
        before = list(self.in_context)
        if "firstKeptEntryIndex" in value:
            first: int | None = as_int(value["firstKeptEntryIndex"])
        else:
            first = self._tree.numbers.get(importers.key_of(as_str(value.get("firstKeptEntryId"))))
        numbers = self._tree.numbers
        retained = [id for id in before if first is not None and numbers.get(id, -1) >= first]
        role = as_str(value.get("type"))
        self._emptied.append(
            (id, self.write_summary(id, importers.text_parts(value["summary"]), retained, role=role))
        )
        self._tree.cover(id, set(before) - set(retained))

    def _meta(self, value: JsonObject, *names: str) -> dict[str, Any]:
        found = {name: as_str(value[name]) for name in names if as_str(value.get(name))}
        return {self.system: found} if found else {}


def _parent(value: JsonObject, tree: RecordTree) -> str | None:
    if "parentId" not in value:
        return tree.last
    parent = value["parentId"]
    return None if parent is None else importers.key_of(as_str(parent))


def is_head(value: Json) -> bool:
    """Return whether a record is a session's head, of any version or of OpenClaw."""
    record = as_dict(value)
    is_session = record.get("type") == "session" and isinstance(record.get("id"), str)
    return is_session and {"cwd", "timestamp"} <= record.keys()


def session_of(record: JsonObject, has_begun: bool) -> str:
    """Return the session that a record begins; what follows belongs to it."""
    return as_str(record.get("id")) if is_head(record) and not has_begun else ""


PI = importers.Importer("pi", lines=importers.LineFormat(Pi, session_of), is_record=is_head)


class RecordTree:
    """Records by id, with parents and numbers, and the path to the latest.

    Version 1 has no ids: each record follows the previous one.
    """

    def __init__(self) -> None:
        self.last = ""
        self._parents: dict[str, str] = {}
        self.numbers: dict[str, int] = {}
        self._covered: dict[str, frozenset[str]] = {}

    def __contains__(self, id: str) -> bool:
        return id in self._parents

    def leaves(self, parent: str | None) -> bool:
        """Return whether a record with this parent leaves the path; an unknown parent continues it."""
        if not self.last or parent == self.last:
            return False
        return parent is None or parent in self._parents

    def add(self, id: str, parent: str | None, number: int) -> None:
        """Add a record; parent None means a root, an unknown one the previous record."""
        actual = parent if parent in self._parents else self.last
        self._parents[id] = "" if parent is None else actual or ""
        self.numbers[id] = number
        self.last = id

    def cover(self, id: str, ids: Iterable[str]) -> None:
        """Note the messages that a summary covers."""
        self._covered[id] = frozenset(ids)

    def path(self, last: str, messages: Collection[str]) -> tuple[list[str], list[str]]:
        """Return the messages on the path to a record, and those not covered."""
        path: set[str] = set()
        covered: set[str] = set()
        while last and last not in path:
            path.add(last)
            covered |= self._covered.get(last, frozenset())
            last = self._parents.get(last, "")
        on_path = [id for id in messages if id in path]
        return on_path, [id for id in on_path if id not in covered]
