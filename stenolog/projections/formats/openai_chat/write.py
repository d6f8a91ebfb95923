"""The API of OpenAI Chat Completions, and of the many servers that speak it.

OpenAI's own models take no reasoning back. Servers of DeepSeek, Kimi and MiMo, known by the model's name,
refuse an answer without its `reasoning_content`. Others get it if the card's parameter `reasoning_content` is
true, and none if false. A thought goes back only to its own model family; an answer without such a thought
has a blank there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stenolog.domain import parts
from stenolog.domain.values import Tool
from stenolog.projections.formats import chats
from stenolog.projections.formats.body_builder import (
    tool_shapes,
)
from stenolog.projections.formats.model_families import (
    REASONING_MODELS,
    asks_for_reasoning,
    goes_back,
    same_family,
)
from stenolog.projections.formats.parameters import AnswerSchema, parameters
from stenolog.projections.messages.identifiers import (
    fits_tool_name,
)
from stenolog.projections.messages.message import Body, Message
from stenolog.projections.messages.quoting import note

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
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_content",
    }
)
PROVIDERS = frozenset({"openai"})
# A blank, since Kimi refuses an empty text.
NO_THOUGHT = " "
"""Placeholder for the reasoning of an answer that has none."""
AUDIO = {"audio/wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
"""The sounds that the API takes, and what it calls them."""
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
    """Yield the tools' pointer and number if they are too many."""
    if len(body.get("tools") or ()) > TOOLS:
        yield "/tools", f"{len(body['tools'])} tools, at most {TOOLS}"


class ChatWriter(chats.ToolMessageWriter):
    """Writes the body of `POST /v1/chat/completions`."""

    largest = LARGEST

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
        self.tools, self.about_tools = tool_shapes(preamble, _tool_shape), {}

    def assistant(self, message: Message) -> None:
        content: list[Body] = []
        thoughts: list[str] = []
        calls: list[Body] = []
        rule = ""
        for part in message.parts:
            match part:
                case parts.TextPart(text=text):
                    content.append({"type": "text", "text": text})
                # Beside other parts the API has no place for a refusal.
                case parts.RefusalPart(text=text) if len(message.parts) == 1:
                    content.append({"type": "refusal", "refusal": text})
                case parts.RefusalPart(text=text):
                    content.append({"type": "text", "text": text})
                case parts.ToolCall() as call:
                    shape, mended = self._call(message, len(calls), call)
                    calls.append(shape)
                    rule = rule or mended
                case parts.ReasoningPart() if self.reasons:
                    if _is_readable(part) and goes_back(part, message, self.preamble, PROVIDERS):
                        thoughts.append(part.text)
                    else:
                        self.builder.omit(message, part, "foreign-reasoning")
                case parts.ReasoningPart() | parts.ProviderPart():
                    self.builder.omit(message, part)
                case _:
                    pass
        if not content and not calls:
            return
        written: Body = {"role": "assistant", "content": chats.flat(content)}
        if self.reasons:
            written["reasoning_content"] = "\n\n".join(thoughts) or NO_THOUGHT
        if calls:
            written["tool_calls"] = calls
        self.builder.messages.append(written)
        shown = written if thoughts else {**written, "reasoning_content": ""}
        self.builder.explain(message, shown, rule=rule)

    def _call(self, message: Message, nth: int, call: parts.ToolCall) -> tuple[Body, str]:
        is_own = call.form == "custom" and same_family(message.model, self.preamble.model)
        if not (is_own and fits_tool_name(call.name)):
            return self.call(message, nth, call)
        id, new_id = self.ids.give(message.calls[nth], call)
        custom = {"name": call.name, "input": call.arguments}
        return {"id": id, "type": "custom", "custom": custom}, "call-id" if new_id else ""

    def medium(self, part: parts.ImagePart | parts.FilePart) -> Body:
        data = self.builder.data(part)
        if shown := chats.picture(part, data):
            return shown
        if isinstance(part, parts.FilePart) and part.media_type in AUDIO and data is not None:
            return {"type": "input_audio", "input_audio": {"data": data, "format": AUDIO[part.media_type]}}
        if isinstance(part, parts.FilePart) and part.id and part.provider in PROVIDERS:
            return {"type": "file", "file": {"file_id": part.id}}
        if isinstance(part, parts.FilePart) and part.media_type == PDF and data is not None:
            name = part.name or "file.pdf"
            return {"type": "file", "file": {"filename": name, "file_data": chats.data_url(part, data)}}
        return chats.in_words(part, data)


def json_note() -> Message:
    """Return the note that asks for JSON."""
    return Message("system", (parts.TextPart(text=JSON_NOTE),), (), "json-note", "added")


def _say(name: str, value: Any, model: str) -> Body | None:
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


def described(output: AnswerSchema) -> Body:
    """Return an answer's schema, as both of OpenAI's APIs have it."""
    strict = {} if output.strict is None else {"strict": output.strict}
    return {"name": output.name, "schema": output.schema, **strict}


def _is_readable(thought: parts.ReasoningPart) -> bool:
    return bool(thought.text) and not (thought.signature or thought.encrypted)


def _tool_shape(tool: Tool) -> Body:
    strict = {} if tool.strict is None else {"strict": tool.strict}
    return {"type": "function", "function": {**chats.function_shape(tool), **strict}}
