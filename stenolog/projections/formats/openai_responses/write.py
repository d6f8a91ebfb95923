"""The API of OpenAI Responses, with nothing stored at OpenAI.

The conversation is a list of items: messages, calls, outputs, reasoning. Reasoning goes back encrypted, to
its model family, and never last. So do a message's `phase`, a call's `namespace`, and the forms of custom
tools' calls and tool searches: another family gets plain messages and calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from stenolog.domain.parts import (
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)
from stenolog.domain.values import Tool
from stenolog.projections.formats import body_builder
from stenolog.projections.formats.chats import NO_OUTPUT
from stenolog.projections.formats.model_families import encrypts_reasoning, goes_back, same_family
from stenolog.projections.formats.openai_chat.write import LARGEST, PDF, described, json_note
from stenolog.projections.formats.parameters import parameters
from stenolog.projections.formats.writer import EarlierMessages, Writer
from stenolog.projections.messages import identifiers
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.message import BlobText, Body, Message, Preamble
from stenolog.projections.messages.quoting import UNREADABLE, placeholder

from .items import NOTES, PROGRAMS, STANDING, caller_of, has_program

NAME = "openai-responses"
VERSION = 1
PARAMETERS = frozenset(
    {
        "include", "max_output_tokens", "max_tool_calls", "metadata", "prompt_cache_key",
        "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier",
        "stream", "stream_options", "temperature", "text", "top_logprobs", "top_p", "truncation", "user",
    }
)  # fmt: skip
PROVIDERS = frozenset({"openai"})
ENCRYPTED = "reasoning.encrypted_content"
OUTPUTS: Mapping[str, str] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
"""The calls that an output of ours follows, each with what the output is called."""
PHASES = frozenset({"commentary", "final_answer"})
"""The phases that a message of the model's may have."""


class Written(NamedTuple):
    """An item, the parts that it says, and the rule that mended it, if any.

    `is_whole`: it has all else that OpenAI said of the parts.
    """

    item: Body
    parts: tuple[Part, ...]
    rule: str = ""
    is_whole: bool = False


class ResponsesWriter(Writer):
    """Writer of the body of `POST /v1/responses`; what changes least comes first."""

    def begin(self) -> None:
        super().begin()
        self.has_thought, self.looked_at = False, 0
        self.tools = body_builder.tool_shapes(self.preamble, _tool_shape, PROVIDERS)
        self.asked = parameters(self.builder, self.preamble, PARAMETERS, _say)
        match self.asked:
            case {"text": {"format": {"type": "json_object"}}}:
                _write_input(self.builder, json_note(), self.ids)
            case _:
                pass

    @property
    def memo(self) -> bool:
        """True if an earlier item is a thought."""
        return self.has_thought or any(map(_is_reasoning, self.builder.messages[self.looked_at :]))

    def resume(self, earlier: EarlierMessages | None, messages: Sequence[Body], memo: bool) -> None:
        super().resume(earlier, messages, memo)
        self.has_thought = memo

    def write(self, messages: Sequence[Message]) -> None:
        builder, ids = self.builder, self.ids
        for is_assistant, run in groupby(messages, key=lambda message: message.role == "assistant"):
            if is_assistant:
                _answers(builder, run, self.preamble, ids)
            else:
                for message in run:
                    _write_input(builder, _compacted(builder, message, self.preamble, ids), ids)

    def close(self, messages: Sequence[Message]) -> Body:
        self.write(messages)
        body_builder.explain_tools(self.builder, self.preamble, self.tools, PROVIDERS)
        body: Body = {"model": self.preamble.model, "store": False}
        if self.preamble.persona:
            body["instructions"] = self.preamble.persona
        if self.tools:
            body["tools"] = self.tools
        body |= self.asked
        if self._reasons():
            body["include"] = list(dict.fromkeys([ENCRYPTED, *self.asked.get("include", [])]))
        return body | {"input": self.builder.messages.copy()}

    def _reasons(self) -> bool:
        if encrypts_reasoning(self.preamble.model) or "reasoning" in self.asked:
            return True
        items, stays = self.builder.messages, self.builder.stays
        # Frozen items are looked at once.
        self.has_thought |= any(map(_is_reasoning, items[self.looked_at : stays]))
        self.looked_at = stays
        return self.has_thought or any(map(_is_reasoning, items[stays:]))


def _is_reasoning(item: Body) -> bool:
    return bool(item["type"] == "reasoning")


def _say(name: str, value: Any) -> Body | None:
    match name:
        case "max_tokens":
            return {"max_output_tokens": value}
        # This API has no stop texts.
        case "stop":
            return None
        case "tool_choice":
            return {"tool_choice": {"type": "function", "name": value.tool} if value.tool else value.mode}
        case "output":
            return {"text": {"format": {"type": "json_schema", **described(value)}}}
        case "effort":
            return {"reasoning": {"effort": value}}
        case _:
            return {name: value}


def _write(
    builder: body_builder.BodyBuilder, message: Message, made: Written, *, continues: bool = False
) -> None:
    builder.messages.append(made.item)
    said = message._replace(parts=made.parts)
    carried = made.parts if made.is_whole else ()
    builder.explain(said, _read(made.item), rule=made.rule, continues=continues, carried=carried)


def _read(item: Body) -> object:
    return compact(item) if item["type"] in STANDING or item["type"].startswith("tool_search") else item


def _answers(
    builder: body_builder.BodyBuilder, run: Iterator[Message], preamble: Preamble, ids: identifiers.CallIds
) -> None:
    """Write the lane's consecutive messages; omit trailing reasoning."""
    said = [
        (message, made) for message in run for made in _calls_last([*_items(builder, message, preamble, ids)])
    ]
    while said and said[-1][1].item["type"] == "reasoning":
        message, made = said.pop()
        builder.omit(message, made.parts[0], "trailing-thinking")
    before: Message | None = None
    for message, made in said:
        _write(builder, message, made, continues=message is before)
        before = message


def _calls_last(made: list[Written]) -> list[Written]:
    calls = [each.item["type"] in OUTPUTS for each in made]
    kinds = [each.item["type"] for each in made]
    if True in calls and "message" in kinds[calls.index(True) :]:
        # Outputs must follow their calls, without a message between.
        return sorted(made, key=lambda each: each.item["type"] in OUTPUTS)
    return made


def _items(
    builder: body_builder.BodyBuilder, message: Message, preamble: Preamble, ids: identifiers.CallIds
) -> Iterator[Written]:
    calls = iter(message.calls)
    is_own = same_family(message.model, preamble.model)
    for (spoken, phase), parts in groupby(message.parts, key=_message_of):
        if spoken:
            said = tuple(parts)
            item: Body = {"type": "message", "role": "assistant", "content": [*map(_spoken, said)]}
            yield Written(item | ({"phase": phase} if phase and is_own else {}), said)
            continue
        for part in parts:
            if isinstance(part, ToolCall):
                key = next(calls)
                id, new_id = ids.give(key, part)
                made = _own_form(part, id, "call-id" if new_id else "") if is_own else None
                if made is not None:
                    ids.forms[key] = OUTPUTS[made.item["type"]]
                made = made or _call(part, id, "call-id" if new_id else "")
                ids.callers.pop(key, None)
                if part.raw and (caller := caller_of(part, message, preamble, ids, PROVIDERS)):
                    ids.callers[key] = caller
                    made = made._replace(item={**made.item, "caller": caller}, is_whole=True)
                yield made
            elif isinstance(part, ReasoningPart | ProviderPart):
                native = (
                    _native(part, ids, preamble) if goes_back(part, message, preamble, PROVIDERS) else None
                )
                if native is None:
                    builder.omit(
                        message, part, "foreign-reasoning" if isinstance(part, ReasoningPart) else ""
                    )
                else:
                    yield Written(native, (part,))


def _message_of(part: Part) -> tuple[bool, str]:
    phase = part.phase if isinstance(part, TextPart) and part.phase in PHASES else ""
    return isinstance(part, TextPart | RefusalPart), phase


def _spoken(part: Part) -> Body:
    match part:
        case RefusalPart(text=text):
            return {"type": "refusal", "refusal": text}
        case _:
            return {"type": "output_text", "text": getattr(part, "text", "")}


def _own_form(call: ToolCall, id: str, rule: str) -> Written | None:
    """Return a call as OpenAI wrote it, if no plain function's and possible here."""
    item: Body = {"call_id": id}
    if call.form == "custom" and identifiers.fits_tool_name(call.name):
        item = {"type": "custom_tool_call", **item, "name": call.name, "input": call.arguments}
    elif call.form == "tool_search" and not identifiers.arguments_object(call.arguments)[1]:
        given, _ = identifiers.arguments_object(call.arguments)
        item = {"type": "tool_search_call", **item, "execution": "client", "arguments": given}
    elif call.namespace and not call.form and identifiers.fits_tool_name(call.name):
        arguments, wrapped = identifiers.arguments_text(call.arguments)
        rule = "raw-arguments" if wrapped else rule
        item = {"type": "function_call", **item, "name": call.name, "namespace": call.namespace}
        item["arguments"] = arguments
    else:
        return None
    return Written(item, (call,), rule)


def _call(call: ToolCall, id: str, rule: str) -> Written:
    name = identifiers.tool_name(identifiers.called(call))
    arguments, wrapped = identifiers.arguments_text(call.arguments)
    rule = "raw-arguments" if wrapped else "tool-name" if name != identifiers.called(call) else rule
    item = {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
    return Written(item, (call,), rule)


def _native(part: ReasoningPart | ProviderPart, ids: identifiers.CallIds, preamble: Preamble) -> Body | None:
    if isinstance(part, ProviderPart):
        return _provider_item(part.raw, ids, preamble)
    if not part.encrypted:
        return None
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {"type": "reasoning", "summary": summary, "encrypted_content": part.encrypted}


def _provider_item(raw: str, ids: identifiers.CallIds, preamble: Preamble) -> Body | None:
    """Return the item of one of OpenAI's own tools, without notes; None if it cannot be sent alone."""
    item, broken = identifiers.arguments_object(raw)
    kind = item.get("type")
    if broken or not isinstance(kind, str) or kind not in STANDING:
        return None
    if kind in PROGRAMS and not (preamble.version > 5 and has_program(kind, item.get("call_id"), ids)):
        return None
    if STANDING[kind] and not ids.keep(item.get("id")):
        return None
    # Without its content it refers to what OpenAI has stored.
    if kind == "compaction" and not item.get("encrypted_content"):
        return None
    # Without an id, which would be looked up in OpenAI's store, where nothing is.
    left_out = NOTES if STANDING[kind] else (*NOTES, "id")
    return {name: value for name, value in item.items() if name not in left_out}


def _write_input(builder: body_builder.BodyBuilder, message: Message, ids: identifiers.CallIds) -> None:
    """Write a foreign item: a user's or a developer's message, or a call's output."""
    if message.role == "system":
        said = body_builder.texts(message) + [
            placeholder(part, "not shown") for part in body_builder.media(message)
        ]
        _write(builder, message, Written(_message("developer", "\n".join(said)), message.parts))
        return
    medium, fits = partial(_medium, builder), partial(builder.fits, limit=LARGEST)
    shown, rule = body_builder.content_blocks(message, medium, fits)
    content = _flat(shown)
    if message.call is None:
        if content:
            _write(builder, message, Written(_message("user", content), message.parts, rule))
        return
    if message.failed and not (content if isinstance(content, list) else content.strip()):
        content, rule = NO_OUTPUT, "empty-error"
    form, id = ids.forms.get(message.call, "function_call_output"), ids.of(message.call)
    item: Body = {"type": form, "call_id": id, "output": content}
    if form == "tool_search_output":
        found = _found(content)
        rule = rule or ("" if found is not None else "no-tools-found")
        item = {
            "type": form,
            "call_id": id,
            "execution": "client",
            "status": "completed",
            "tools": found or [],
        }
    if message.call in ids.callers:
        item["caller"] = ids.callers[message.call]
    _write(builder, message, Written(item, message.parts, rule))


def _found(content: str | list[Body]) -> list[Any] | None:
    given, broken = (
        identifiers.arguments_object(f'{{"tools":{content}}}') if isinstance(content, str) else ({}, True)
    )
    tools = None if broken else given.get("tools")
    return tools if isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools) else None


def _compacted(
    builder: body_builder.BodyBuilder, message: Message, preamble: Preamble, ids: identifiers.CallIds
) -> Message:
    """Write OpenAI's items for a summary's messages; return the rest."""
    said: list[Part] = []
    compacted = False
    for part in message.parts:
        fits = isinstance(part, ProviderPart) and goes_back(part, message, preamble, PROVIDERS)
        item = _provider_item(part.raw, ids, preamble) if isinstance(part, ProviderPart) and fits else None
        if item is None:
            said.append(part)
        else:
            compacted |= item["type"] == "compaction"
            builder.messages.append(item)
            builder.explain(message._replace(parts=(), disposition="kept"), _read(item))
    left = () if compacted and said == [UNREADABLE] else tuple(said)
    return message._replace(parts=left)


def _message(role: str, content: str | list[Body]) -> Body:
    return {"type": "message", "role": role, "content": content}


def _flat(shown: list[Body]) -> str | list[Body]:
    if all(part["type"] == "text" for part in shown):
        return "\n".join(part["text"] for part in shown)
    said = [part for part in shown if part.get("text", "-").strip()]
    return [part | {"type": "input_text"} if part["type"] == "text" else part for part in said]


def _medium(builder: body_builder.BodyBuilder, part: ImagePart | FilePart) -> Body:
    """Return a picture or a PDF as the API takes it; others, and missing blobs, as a line of text."""
    accepted = (
        part.media_type in body_builder.PICTURES if isinstance(part, ImagePart) else part.media_type == PDF
    )
    if isinstance(part, FilePart) and part.id and part.provider in PROVIDERS:
        return {"type": "input_file", "file_id": part.id}
    data = builder.data(part)
    url = part.url if part.url.startswith(("https://", "http://")) else ""
    if not accepted or (data is None and not url):
        return {"type": "text", "text": placeholder(part, "is not available" if accepted else "is not shown")}
    inline = data and BlobText(f"data:{part.media_type};base64,", data, data.blob)
    if isinstance(part, ImagePart):
        return {"type": "input_image", "image_url": inline or url, "detail": "auto"}
    if inline:
        return {"type": "input_file", "filename": part.name or "file.pdf", "file_data": inline}
    return {"type": "input_file", "file_url": url}


def _tool_shape(tool: Tool) -> Body:
    shape: Body = {"type": "function", "name": identifiers.tool_name(tool.name)}
    if tool.description:
        shape["description"] = tool.description
    return shape | {"parameters": body_builder.schema(tool.parameters), "strict": tool.strict or False}
