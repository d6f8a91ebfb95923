"""The API of OpenAI Chat Completions, and of the many servers that speak it.

OpenAI's own models take no reasoning back. Some servers refuse an answer without its `reasoning_content`:
those of DeepSeek, Kimi and MiMo, known by the model's name. Others get it where the card's parameter
`reasoning_content` is true, and none where it is false. An answer of another model, or one without a thought,
has a blank in its place: a thought goes back to the family of models that thought it alone.

Tool messages hold text alone, so a tool's pictures follow its results in a message of the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stenolog.domain.parts import (
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)
from stenolog.domain.values import Tool
from stenolog.projections.formats.body_builder import (
    PICTURES,
    BodyBuilder,
    content_blocks,
    explain_tools,
    media,
    schema,
    texts,
    tool_shapes,
)
from stenolog.projections.formats.model_families import (
    REASONING_MODELS,
    asks_for_reasoning,
    goes_back,
    same_family,
)
from stenolog.projections.formats.parameters import Output, parameters
from stenolog.projections.formats.writer import Writer
from stenolog.projections.messages.identifiers import (
    CallIds,
    arguments_text,
    called,
    fits_tool_name,
    tool_name,
)
from stenolog.projections.messages.message import BlobText, Body, Message, Preamble
from stenolog.projections.messages.quoting import note, placeholder

NAME = "openai-chat"
VERSION = 1
PARAMETERS = frozenset(
    {
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
        "response_format",
        "frequency_penalty",
        "presence_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "reasoning_effort",
        "verbosity",
        "user",
        "metadata",
        "store",
        "stream",
        "service_tier",
        "reasoning_content",
    }
)
PROVIDERS = frozenset({"openai"})
# A blank, since Kimi refuses an empty text.
NO_THOUGHT = " "
"""Placeholder for the reasoning of an answer that has none."""
AUDIO = {"audio/wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
"""The sounds that the API takes, and what it calls them."""
NO_OUTPUT = "[no output]"
PDF = "application/pdf"
# A request holds 50 MB of pictures and files (its page on vision).
LARGEST = 50_000_000
"""The longest base64 text of a picture or a file."""
# OpenAI answers in JSON only where the word stands among the messages.
JSON_NOTE = note("answer in JSON")


# "Invalid 'tools': array too long. Expected an array with maximum length 128" (zed#32946, June 2025).
TOOLS = 128
"""The most tools that a request may declare."""


def too_many_tools(body: Body) -> Iterator[tuple[str, str]]:
    """Yield the pointer of the tools, and how many they are, if they are too many."""
    if len(body.get("tools") or ()) > TOOLS:
        yield "/tools", f"{len(body['tools'])} tools, at most {TOOLS}"


class ChatWriter(Writer):
    """Writes the body of `POST /v1/chat/completions`."""

    def begin(self) -> None:
        builder, preamble = self.builder, self.preamble
        self.asked = parameters(
            builder, preamble, PARAMETERS, lambda name, value: _say(name, value, preamble.model)
        )
        # The card decides for servers that are not known by the model's name.
        wanted = self.asked.pop("reasoning_content", None)
        self.reasons = wanted if isinstance(wanted, bool) else asks_for_reasoning(preamble.model)
        said = [preamble.persona] if preamble.persona else []
        builder.explain_persona(preamble, message=0)
        if self.asked.get("response_format") == {"type": "json_object"}:
            said.append(JSON_NOTE)
            builder.explain(json_note(), JSON_NOTE, index=0)
        if said:
            builder.messages.append({"role": "system", "content": "\n\n".join(said)})
        self.tools = tool_shapes(preamble, _tool_shape)

    def write(self, messages: Sequence[Message]) -> None:
        builder, ids = self.builder, self.ids
        late_media: list[Message] = []
        for message in messages:
            if message.role != "tool":
                _flush(builder, late_media)
            match message.role:
                case "assistant":
                    _assistant(builder, message, self.preamble, ids, reasons=self.reasons)
                case "tool":
                    _tool(builder, message, ids)
                    # Tool messages hold text alone, and nothing may stand between the results of one answer.
                    late_media += [message] if media(message) else []
                case "system":
                    _write(builder, message, {"role": "system", "content": "\n".join(_spoken(message))})
                case "user":
                    _user(builder, message)
        _flush(builder, late_media)

    def close(self, messages: Sequence[Message]) -> Body:
        self.write(messages)
        explain_tools(self.builder, self.preamble, self.tools)
        body: Body = {"model": self.preamble.model, "messages": self.builder.messages.copy()}
        if self.tools:
            body["tools"] = self.tools
        return body | self.asked


def json_note() -> Message:
    """Return the note that asks for JSON."""
    return Message("system", (TextPart(text=JSON_NOTE),), (), "json-note", "added")


def _say(name: str, value: Any, model: str) -> Body | None:
    """Return a neutral parameter in this API's words."""
    match name:
        case "max_tokens":
            return {"max_completion_tokens" if REASONING_MODELS.search(model) else "max_tokens": value}
        case "tool_choice":
            named = {"type": "function", "function": {"name": value.tool}}
            return {"tool_choice": named if value.tool else value.mode}
        case "output":
            return {"response_format": {"type": "json_schema", "json_schema": described(value)}}
        case "effort":
            return {"reasoning_effort": value}
        case _:
            return {name: value}


def described(output: Output) -> Body:
    """Return the schema of an answer, as both of OpenAI's APIs have it."""
    strict = {} if output.strict is None else {"strict": output.strict}
    return {"name": output.name, "schema": output.schema, **strict}


def _write(builder: BodyBuilder, message: Message, written: Body, rule: str = "") -> None:
    builder.messages.append(written)
    builder.explain(message, written, rule=rule, continues=message.rule == "media-after-results")


def _spoken(message: Message) -> list[str]:
    return texts(message) + [placeholder(part, "not shown") for part in media(message)]


def _assistant(
    builder: BodyBuilder, message: Message, preamble: Preamble, ids: CallIds, *, reasons: bool
) -> None:
    content: list[Body] = []
    thoughts: list[str] = []
    calls: list[Body] = []
    rule = ""
    for part in message.parts:
        match part:
            case TextPart(text=text):
                content.append({"type": "text", "text": text})
            # Beside other parts the API has no place for a refusal.
            case RefusalPart(text=text) if len(message.parts) == 1:
                content.append({"type": "refusal", "refusal": text})
            case RefusalPart(text=text):
                content.append({"type": "text", "text": text})
            case ToolCall() as call:
                shape, mended = _call(message, len(calls), call, preamble, ids)
                calls.append(shape)
                rule = rule or mended
            case ReasoningPart() if reasons:
                if _is_readable(part) and goes_back(part, message, preamble, PROVIDERS):
                    thoughts.append(part.text)
                else:
                    builder.omit(message, part, "foreign-reasoning")
            case ReasoningPart() | ProviderPart():
                builder.omit(message, part)
            case _:
                pass
    if not content and not calls:
        return
    written: Body = {"role": "assistant", "content": _flat(content)}
    if reasons:
        written["reasoning_content"] = "\n\n".join(thoughts) or NO_THOUGHT
    if calls:
        written["tool_calls"] = calls
    builder.messages.append(written)
    shown = written if thoughts else {**written, "reasoning_content": ""}
    builder.explain(message, shown, rule=rule)


def _is_readable(thought: ReasoningPart) -> bool:
    """Return whether a thought came as plain text, without a provider's proof or ciphertext."""
    return bool(thought.text) and not (thought.signature or thought.encrypted)


def _flat(content: list[Body]) -> str | list[Body] | None:
    """Return one text as a plain string, nothing as null, anything else as the list it is."""
    if not content:
        return None
    if len(content) == 1 and content[0]["type"] == "text":
        text: str = content[0]["text"]
        return text
    return content


def _call(message: Message, nth: int, call: ToolCall, preamble: Preamble, ids: CallIds) -> tuple[Body, str]:
    """Return the shape of a call, and the rule that mended it (empty: none had to)."""
    id, new_id = ids.give(message.calls[nth], call)
    if call.form == "custom" and fits_tool_name(call.name) and same_family(message.model, preamble.model):
        custom = {"name": call.name, "input": call.arguments}
        return {"id": id, "type": "custom", "custom": custom}, "call-id" if new_id else ""
    name = tool_name(called(call))
    arguments, wrapped = arguments_text(call.arguments)
    rule = (
        "raw-arguments" if wrapped else "tool-name" if name != called(call) else "call-id" if new_id else ""
    )
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}, rule


def _tool(builder: BodyBuilder, message: Message, ids: CallIds) -> None:
    assert message.call is not None
    said = texts(message) + [placeholder(part, "shown below") for part in media(message)]
    text = "\n".join(said)
    rule = ""
    if message.failed and not text.strip():
        text, rule = NO_OUTPUT, "empty-error"
    _write(builder, message, {"role": "tool", "tool_call_id": ids.of(message.call), "content": text}, rule)


def _flush(builder: BodyBuilder, late_media: list[Message]) -> None:
    """Write the pictures of the results just written, once no further result follows."""
    for message in late_media:
        _user(builder, message._replace(role="user", parts=tuple(media(message)), rule="media-after-results"))
    late_media.clear()


def _user(builder: BodyBuilder, message: Message) -> None:
    shown, rule = content_blocks(
        message, lambda part: _medium(builder, part), lambda part: builder.fits(part, LARGEST)
    )
    content = _flat(shown)
    if content:
        _write(builder, message, {"role": "user", "content": content}, rule)


def _medium(builder: BodyBuilder, part: ImagePart | FilePart) -> Body:
    """Return a picture or a PDF as the API takes it; other files, and missing blobs, as a line of text."""
    data = builder.data(part)
    url: Any = part.url if part.url.startswith(("https://", "http://")) else ""
    if data is not None:
        url = BlobText(f"data:{part.media_type};base64,", data, data.blob)
    if isinstance(part, ImagePart) and url and part.media_type in PICTURES:
        return {"type": "image_url", "image_url": {"url": url}}
    if isinstance(part, FilePart) and part.media_type in AUDIO and data is not None:
        return {"type": "input_audio", "input_audio": {"data": data, "format": AUDIO[part.media_type]}}
    if isinstance(part, FilePart) and part.id and part.provider in PROVIDERS:
        return {"type": "file", "file": {"file_id": part.id}}
    if isinstance(part, FilePart) and part.media_type == PDF and data is not None:
        return {"type": "file", "file": {"filename": part.name or "file.pdf", "file_data": url}}
    return {"type": "text", "text": placeholder(part, "is not available" if data is None else "is not shown")}


def _tool_shape(tool: Tool) -> Body:
    function: Body = {"name": tool_name(tool.name)}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = schema(tool.parameters)
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}
