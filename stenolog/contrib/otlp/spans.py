"""Spans of agents' work as a conversation.

A model call brings the messages that its lane has not had, and its answer; a tool's span is its result. The
nearest `invoke_agent` above names the agent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, get_args

from stenolog import importers
from stenolog.events import ErrorCategory, Usage
from stenolog.importers import (
    Blobs,
    Json,
    JsonObject,
    Record,
    agent_called,
    arguments,
    as_dict,
    as_int,
    as_list,
    as_str,
    compact_json,
    keep_base64,
)
from stenolog.parts import (
    AssistantPart,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
    UserPart,
)

from .wire import ReadSpan, content, objects, spans_in

SYSTEM = "otlp"
MODEL_CALLS = ("chat", "generate_content", "text_completion")
USED = {
    "input": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "output": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "cache_read": ("gen_ai.usage.cache_read.input_tokens",),
    "cache_write": ("gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens"),
    "reasoning": ("gen_ai.usage.reasoning.output_tokens",),
}
"""The attributes of a `Usage`, older names too."""
LEFT_OUT = "stenolog.input.left_out"
"""The number of messages of a request that the one before it had."""
MAIN = "assistant"


class SpanConverter(importers.SessionConverter):
    """Converter of a conversation's spans, in the order in which they ended."""

    system = SYSTEM

    def __init__(self, log: importers.ExistingLog, spans: Mapping[str, ReadSpan]) -> None:
        self._spans = spans
        self._agents: dict[str, str] = {}
        first = min(spans.values(), key=lambda span: (span.start, -span.end.timestamp()), default=None)
        self.main = self._agent(first) if first is not None else MAIN
        super().__init__(log)
        self._had: dict[str, Counter[str]] = {}
        self._answered: dict[str, Counter[str]] = {}
        """The answers that no later request has repeated, by agent."""
        self._briefed: set[str] = set()
        self._waiting: dict[str, ReadSpan] = {}

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a span."""
        span = self._spans[as_str(record.value.get("spanId"))]
        agent = self._agent(span)
        if span.operation in MODEL_CALLS:
            self._add_model_call(span, agent)
        elif span.operation == "execute_tool":
            self._add_tool_run(span, agent)
        elif span.operation == "invoke_agent":
            self._add_agent_run(span, agent)
        else:
            self.ignored[f"span: {span.operation}"[:60]] += 1
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps for answers whose words no span has."""
        for agent in [*self._waiting]:
            self._settle(agent)
        return super().end()

    def _agent(self, span: ReadSpan) -> str:
        """Return the agent that a span is of."""
        path: dict[str, None] = {}
        name = ""
        found: ReadSpan | None = span
        while found is not None and found.id not in path and not name:
            path[found.id] = None
            name = self._agents.get(found.id, "") or as_str(found.attributes.get("gen_ai.agent.name"))
            found = self._spans.get(found.parent)
        self._agents.update(dict.fromkeys(path, agent_called(name, MAIN)))
        return self._agents[span.id]

    def _add_model_call(self, span: ReadSpan, agent: str) -> None:
        self.time = span.start
        attributes = span.attributes
        model = as_str(attributes.get("gen_ai.response.model")) or as_str(
            attributes.get("gen_ai.request.model")
        )
        self._deal(agent, attributes, model)
        self._add_request(span, agent, objects(attributes.get("gen_ai.input.messages")))
        self._settle(agent)
        self.time = span.end
        outputs = [*objects(attributes.get("gen_ai.output.messages"))]
        if span.error:
            parts = [part for message in outputs for part in answer_parts(message, span.id)]
            category: Any = span.error if span.error in get_args(ErrorCategory) else "other"
            self.write_error(
                span.id,
                span.message or span.error,
                category,
                parts,
                agent=agent,
                model=model,
                usage=_usage(span),
            )
        elif outputs:
            for nth, message in enumerate(outputs):
                self._remember(agent, {**message, "role": "assistant"})
                self._answered[agent][_key({**message, "role": "assistant"})] += 1
                self._answer(span, agent, message, nth)
        else:
            self._waiting[agent] = span

    def _deal(self, agent: str, attributes: JsonObject, model: str) -> None:
        changes: dict[str, Any] = {"model": model} if model else {}
        if provider := as_str(attributes.get("gen_ai.provider.name")):
            changes["provider"] = provider
        prompt = [
            as_str(part.get("content")) for part in objects(attributes.get("gen_ai.system_instructions"))
        ]
        if any(prompt):
            changes["persona"] = "\n\n".join(filter(None, prompt))
        tools = [importers.read_tool(tool) for tool in objects(attributes.get("gen_ai.tool.definitions"))]
        if named := {tool.name: tool for tool in tools if tool.name}:
            changes["tools"] = tuple(named.values())
        self.setup.card(agent, **changes)

    def _add_request(self, span: ReadSpan, agent: str, messages: Any) -> None:
        """Write the messages of a request that the lane has not had yet."""
        answered = self._answered.setdefault(agent, Counter())
        is_rest = LEFT_OUT in span.attributes
        had = answered if is_rest else Counter(self._had.get(agent, ()))
        for nth, message in enumerate(messages):
            key = _key(message)
            if had[key]:
                had[key] -= 1
                continue
            self._remember(agent, message)
            self._message(span, agent, message, f"{span.id}:{nth}")

    def _remember(self, agent: str, message: JsonObject) -> None:
        self._had.setdefault(agent, Counter())[_key(message)] += 1

    def _message(self, span: ReadSpan, agent: str, message: JsonObject, id: str) -> None:
        role, blobs = as_str(message.get("role")), Blobs()
        parts = [*parts_in(message)]
        if role == "assistant":
            waits = self._waiting.pop(agent, None)
            self._answer(waits or span, agent, message, 0, "" if waits else id)
        elif any(part.get("type") == "tool_call_response" for part in parts):
            for nth, part in enumerate(parts):
                if part.get("type") == "tool_call_response":
                    self._result(f"{id}:{nth}", agent, as_str(part.get("id")), part, "")
        elif role in ("system", "developer") and not self._is_begun(agent):
            self.setup.card(agent, persona="\n\n".join(as_str(part.get("content")) for part in parts))
        else:
            is_brief = role == "user" and agent not in {self.main, *self._briefed}
            self._briefed.add(agent)
            kind: Any = "system" if role != "user" else "agent" if is_brief else "person"
            said = [made for each in parts if (made := user_part(each, blobs))]
            brief = self._brief(span) if is_brief else {}
            name = as_str(message.get("name"))
            self.write_user(
                id, said, kind, agent="" if agent == self.main else agent, role=role, blobs=blobs,
                **({"author": name} | brief),
            )  # fmt: skip

    def _is_begun(self, agent: str) -> bool:
        return sum(self._had.get(agent, Counter()).values()) > 1

    def _brief(self, span: ReadSpan) -> dict[str, Any]:
        """Return who has begun a sub-agent's work, and with which call."""
        found: ReadSpan | None = span
        for _ in range(len(self._spans)):
            found = self._spans.get(found.parent) if found else None
            if found is not None and found.operation == "execute_tool":
                call = self.writer.find_call(as_str(found.attributes.get("gen_ai.tool.call.id")))
                return {"author": self._agent(found), "cause": call.position if call else None}
        return {"author": self.main}

    def _answer(self, span: ReadSpan, agent: str, message: JsonObject, nth: int, id: str = "") -> None:
        reasons = as_list(span.attributes.get("gen_ai.response.finish_reasons"))
        its_own = not id
        self.write_whole(
            self.unique(id or (f"{span.id}:out{nth}" if nth else span.id)),
            [*answer_parts(message, id or span.id)],
            agent=agent,
            model=as_str(span.attributes.get("gen_ai.response.model")) if its_own else "",
            finish_reason=as_str(message.get("finish_reason"))
            or (as_str(reasons[0]) if reasons and its_own else ""),
            usage=_usage(span) if its_own and not nth else None,
        )

    def _settle(self, agent: str) -> None:
        """Write the answer of a call whose words are in no span."""
        if (span := self._waiting.pop(agent, None)) is not None:
            self.ignored["answer: its words were not exported"] += 1
            self._answer(span, agent, {}, 0)

    def _add_tool_run(self, span: ReadSpan, agent: str) -> None:
        self.time = span.end
        attributes = span.attributes
        if "gen_ai.tool.call.result" not in attributes and not span.error:
            return
        response = {"response": attributes.get("gen_ai.tool.call.result")}
        self._result(
            span.id, agent, as_str(attributes.get("gen_ai.tool.call.id")), response,
            as_str(attributes.get("gen_ai.tool.name")), is_error=bool(span.error),
        )  # fmt: skip

    def _result(
        self, id: str, agent: str, call_id: str, part: JsonObject, name: str, *, is_error: bool = False
    ) -> None:
        found = part.get("response", part.get("result"))
        blobs = Blobs()
        given = as_list(found)
        if given and all(isinstance(each, dict) and "type" in each for each in given):
            said = [made for each in given if (made := user_part(each, blobs))]
        else:
            said = [TextPart(text=found if isinstance(found, str) else compact_json(found))] if found else []
        self.write_result(
            self.unique(id), call_id, said, agent=agent, name=name, blobs=blobs, is_repeated=True,
            is_error=is_error,
        )  # fmt: skip

    def _add_agent_run(self, span: ReadSpan, agent: str) -> None:
        """Write what no model call of the agent has told."""
        self.time = span.end
        if agent not in self._had:
            self._deal(agent, span.attributes, as_str(span.attributes.get("gen_ai.request.model")))
            self._add_request(span, agent, objects(span.attributes.get("gen_ai.input.messages")))
        if agent in self._waiting:
            self._add_request(span, agent, objects(span.attributes.get("gen_ai.output.messages")))


def _usage(span: ReadSpan) -> Usage | None:
    counts: dict[str, Any] = {
        name: next((as_int(span.attributes[key]) for key in keys if key in span.attributes), 0)
        for name, keys in USED.items()
    }
    return Usage(**counts) if any(counts.values()) else None


def _key(message: JsonObject) -> str:
    """Return what tells a message from others, whatever else its exporter says of it."""
    parts = [
        {**part, "arguments": content(part["arguments"])} if "arguments" in part else part
        for part in parts_in(message)
    ]
    return compact_json([message.get("role"), parts])


def parts_in(message: JsonObject) -> Iterator[JsonObject]:
    """Yield a message's parts; one without parts may have a text."""
    if isinstance(words := message.get("content"), str) and "parts" not in message:
        yield {"type": "text", "content": words}
    yield from map(as_dict, as_list(message.get("parts")))


def user_part(part: JsonObject, blobs: Blobs) -> UserPart | None:
    """Return a part that no model said; None for an empty one."""
    media = as_str(part.get("mime_type"))
    match part.get("type"):
        case "text":
            return TextPart(text=as_str(part.get("content")))
        case "blob" if (sha := keep_base64(as_str(part.get("content")), blobs)) is not None:
            is_picture = media.startswith("image/") or part.get("modality") == "image"
            if is_picture:
                return ImagePart(media_type=media or "image/png", blob=sha)
            return FilePart(media_type=media or "application/octet-stream", blob=sha)
        case "uri" if as_str(part.get("uri")).startswith(("http:", "https:")):
            if media.startswith("image/") or part.get("modality") == "image":
                return ImagePart(media_type=media or "image/png", url=part["uri"])
            return FilePart(media_type=media or "application/octet-stream", url=part["uri"])
        case _:
            return ProviderPart(provider=SYSTEM, raw=compact_json(part)) if part else None


def answer_parts(message: JsonObject, key: str) -> Iterator[AssistantPart]:
    """Yield the parts of an answer; a call without an id gets one from `key`."""
    for nth, part in enumerate(parts_in(message)):
        words = as_str(part.get("content"))
        match part.get("type"):
            case "text":
                if words.strip():
                    yield TextPart(text=words)
            case "reasoning":
                yield ReasoningPart(text=words)
            case "refusal":
                yield RefusalPart(text=words)
            case "tool_call":
                id = as_str(part.get("id")) or f"{key}-{nth}"
                yield ToolCall(
                    id=id, name=as_str(part.get("name")), arguments=arguments(part.get("arguments"))
                )
            case _:
                if part:
                    yield ProviderPart(provider=SYSTEM, raw=compact_json(part))


def conversation_of(spans: Sequence[ReadSpan], name: str) -> importers.SourceConversation:
    """Return the conversation of these spans."""
    known = {span.id: span for span in reversed(spans)}  # of one that was sent again, the first
    order = sorted(known.values(), key=lambda span: (span.end, -span.start.timestamp()))
    records = [Record(str(nth), {"spanId": span.id}) for nth, span in enumerate(order, 1)]
    return importers.SourceConversation(name, records, partial(SpanConverter, spans=known), unit="span")


def is_export(value: Json) -> bool:
    """Return whether a value is an export request of traces."""
    return isinstance(as_dict(value).get("resourceSpans"), list)


def read(stream: BinaryIO, reading: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield the conversations of all spans of a file, then those that were exported by stenolog."""
    found: list[ReadSpan] = []
    own: list[importers.SourceConversation] = []
    for place, value in reading.items(stream):
        if not is_export(value):
            reading.skip(place, "an OTLP export of traces", value)
            continue
        spans = [*spans_in(value)]
        if "stenolog" in value:
            source = conversation_of(spans, "")
            whole = importers.restored(value, value, source)
            if whole is not source:
                own.append(whole)
                continue
            own.append(source)
            source.name = next(iter(_conversation_names(spans).values()), "")
            continue
        found += spans
    names = _conversation_names(found)
    groups: dict[str, list[ReadSpan]] = {}
    for span in found:
        if any(name.startswith("gen_ai.") for name in span.attributes):
            groups.setdefault(names[span.trace], []).append(span)
    yield from (conversation_of(spans, name) for name, spans in groups.items())
    yield from own


def _conversation_names(spans: Sequence[ReadSpan]) -> dict[str, str]:
    """Return the conversation of each trace: as one of its spans names it, or the trace's id."""
    names = {span.trace: span.trace for span in spans}
    named = ((span.trace, as_str(span.attributes.get("gen_ai.conversation.id"))) for span in spans)
    return names | {trace: name for trace, name in named if name}


OTLP = importers.Importer("otlp", read=read, is_document=is_export, is_record=is_export)
