"""Sessions as files that `pi --session` goes on with: each record has the id of the one before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from stenolog import importers
from stenolog.events import AssistantMessage, Usage
from stenolog.importers import AgentSession, JsonObject, SessionFile, compact_json, object_in
from stenolog.parts import (
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)

APIS = {
    "anthropic": ("anthropic-messages", "anthropic"),
    "gemini": ("google-generative-ai", "google"),
    "openai": ("openai-responses", "openai"),
}
"""The APIs of answers, and pi's names of their providers, by our names."""
_UNKNOWN = "openai-completions"


def write_session(session: AgentSession) -> SessionFile:
    """Return an agent's session in pi's form."""
    records = _Messages(session)
    records.write()
    began = session.time().astimezone(UTC)
    stamp = f"{began:%Y-%m-%dT%H-%M-%S}-{began.microsecond // 1000:03}Z"
    folder = session.folder.removeprefix("/").replace("/", "-").replace("\\", "-").replace(":", "-")
    place = f"--{folder}--/{stamp}_{session.id}.jsonl"
    text = importers.as_lines(records.made)
    return SessionFile(session.id, text, place, ("pi", "--session", session.id), session.lacks(records.lost))


TO_PI = importers.Exporter("pi", "a session that pi resumes", of_one_agent=True, write_session=write_session)


class _Messages:
    """The records of a session, each after the one before, and what they lack: rules with positions."""

    def __init__(self, session: AgentSession) -> None:
        self.session = session
        self.lost: list[tuple[str, Sequence[int]]] = []
        self.made: list[JsonObject] = [
            {
                "type": "session",
                "version": 3,
                "id": session.id,
                "timestamp": _when(session.time()),
                "cwd": session.folder,
            }
        ]
        self._parent: str | None = None

    def write(self) -> None:
        session = self.session
        summaries = [each for each in session.messages if each.rule == "summary"]
        self.lost += [("late-summary", each.positions) for each in summaries[:-1]]
        if session.title:
            self._add("session_info", (), name=session.title)
        for message in session.messages:
            if message.rule == "summary" and message is summaries[-1]:
                self._summary(message.positions, session.as_summary(message).parts)
            elif message.role == "assistant":
                self._answer(message)
            elif message.role == "tool":
                self._result(message)
            elif message.role == "system":
                content = self._content(message)
                self._add(
                    "custom_message", message.positions, customType="system", content=content, display=True
                )
            elif not self._failed(message):
                self._message(message.positions, role="user", content=self._content(message))

    def _summary(self, at: Sequence[int], parts: Sequence[Part]) -> None:
        kept = next((record["id"] for record in self.made[1:] if record["type"] != "session_info"), "")
        words = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        self.lost += [("opaque-not-carried", at) for part in parts if isinstance(part, ProviderPart)]
        self._add("compaction", at, summary=words, firstKeptEntryId=kept, tokensBefore=0)

    def _failed(self, message: Any) -> bool:
        error = self.session.failure(message.rule, message.positions)
        if error is None:
            return False
        stop = "error" if message.rule == "error-note" else "aborted"
        words = error.message or error.category
        self.lost.append(("shown-only", message.positions))
        self._assistant(message.positions, None, [], stopReason=stop, errorMessage=words)
        return True

    def _answer(self, message: Any) -> None:
        said = self.session.answer(message.positions)
        calls = any(isinstance(part, ToolCall) for part in message.parts)
        provider = self._provider(message.parts)
        content = [*self._blocks(message, provider)]
        if content:
            stop = "toolUse" if calls else "length" if said and said.finish_reason == "length" else "stop"
            self._assistant(message.positions, said, content, provider=provider, stopReason=stop)

    def _provider(self, parts: Sequence[Part]) -> str:
        signed = (part.provider for part in parts if isinstance(part, ReasoningPart) and part.provider)
        return next(signed, self.session.provider)

    def _assistant(
        self,
        at: Sequence[int],
        said: AssistantMessage | None,
        content: list[JsonObject],
        *,
        provider: str = "",
        **fields: Any,
    ) -> None:
        api, name = APIS.get(provider, (_UNKNOWN, provider or "openai"))
        self._message(
            at,
            role="assistant",
            content=content,
            api=api,
            provider=name,
            model=(said.model if said else "") or "unspecified",
            usage=_usage(said.usage if said else None),
            **fields,
        )

    def _blocks(self, message: Any, provider: str) -> Iterator[JsonObject]:
        signature = ""
        for part in message.parts:
            match part:
                case TextPart(text=text, phase=phase):
                    signed = {"v": 1, "id": "", "phase": phase}
                    yield {
                        "type": "text",
                        "text": text,
                        **({"textSignature": json.dumps(signed)} if phase else {}),
                    }
                case RefusalPart(text=text):
                    yield {"type": "text", "text": text}
                case ReasoningPart() if part.provider != provider or not message.model:
                    self.lost.append(("foreign-reasoning", message.positions))
                case ReasoningPart(text="", signature=proof, encrypted="") if proof and provider == "gemini":
                    signature = proof
                case ReasoningPart():
                    yield _thinking(part)
                case ToolCall():
                    yield self._call(part, message.positions, signature)
                    signature = ""
                case ProviderPart(provider="pi", raw=raw):
                    yield object_in(raw)
                case _:
                    self.lost.append(("opaque-not-carried", message.positions))

    def _call(self, call: ToolCall, at: Sequence[int], signature: str) -> JsonObject:
        given, is_wrapped = self.session.arguments(call)
        rest: JsonObject = {"partialJson": call.arguments} if is_wrapped else {}
        self.lost += [("raw-arguments", at)] * is_wrapped
        if signature:
            rest["thoughtSignature"] = signature
        name = f"{call.namespace}__{call.name}" if call.namespace else call.name
        return {"type": "toolCall", "id": call.id, "name": name, "arguments": given, **rest}

    def _result(self, message: Any) -> None:
        self._message(
            message.positions,
            role="toolResult",
            toolCallId=message.raw_id,
            toolName=message.tool,
            content=self._content(message),
            isError=message.failed,
        )

    def _content(self, message: Any) -> list[JsonObject]:
        """Return the blocks of words by others; pictures that the log has are inline."""
        made: list[JsonObject] = []
        for part in message.parts:
            match part:
                case TextPart(text=text):
                    made.append({"type": "text", "text": text})
                case ImagePart() if data := self.session.data(part):
                    made.append({"type": "image", "data": data, "mimeType": part.media_type})
                case ImagePart() | FilePart():
                    made.append({"type": "text", "text": self.session.in_words(part)})
                    self.lost.append(("media-as-text", message.positions))
                case ProviderPart(provider="pi", raw=raw):
                    made.append(object_in(raw))
                case _:
                    self.lost.append(("opaque-not-carried", message.positions))
        return made

    def _message(self, at: Sequence[int], **message: Any) -> None:
        time = int(self.session.time(at).timestamp() * 1000)
        self._add("message", at, message={**message, "timestamp": time})

    def _add(self, type: str, at: Sequence[int], **fields: Any) -> None:
        id = self.session.uuid(len(self.made))[:8]
        about = {"type": type, "id": id, "parentId": self._parent, "timestamp": _when(self.session.time(at))}
        self.made.append({**about, **fields})
        self._parent = id


def _thinking(part: ReasoningPart) -> JsonObject:
    made: JsonObject = {"type": "thinking", "thinking": part.text}
    if part.provider == "openai" and (part.encrypted or part.id):
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        item = {"type": "reasoning", "id": part.id, "summary": summary, "encrypted_content": part.encrypted}
        return {**made, "thinkingSignature": compact_json(item)}
    if part.encrypted:
        return {**made, "thinkingSignature": part.encrypted, "redacted": True}
    return {**made, "thinkingSignature": part.signature} if part.signature else made


def _usage(used: Usage | None) -> JsonObject:
    counted = used or Usage()
    cost = (counted.cost or 0) / 1_000_000
    return {
        "input": counted.input - counted.cache_read - counted.cache_write,
        "output": counted.output,
        "cacheRead": counted.cache_read,
        "cacheWrite": counted.cache_write,
        "totalTokens": counted.input + counted.output,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": cost},
    }


def _when(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
