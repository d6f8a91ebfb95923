"""The body of Cohere's Chat API, version 2.

What a model thinks before its calls is their `tool_plan`. Tool messages hold texts alone, so a tool's
pictures follow its results in a message of the user. Thoughts and citations go back to the family that made
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from stenolog.projections.messages.identifiers import arguments_text, called, tool_name
from stenolog.projections.messages.message import BlobText, Body, Message
from stenolog.projections.messages.quoting import placeholder

from ..body_builder import (
    PICTURES,
    content_blocks,
    explain_tools,
    media,
    provider_form,
    schema,
    texts,
    tool_shapes,
)
from ..model_families import goes_back
from ..parameters import parameters
from ..writer import Writer

NAME = "cohere"
VERSION = 1
PROVIDERS = frozenset({NAME})
PARAMETERS = frozenset(
    (
        *("temperature", "p", "k", "max_tokens", "seed", "stop_sequences", "frequency_penalty"),
        *("presence_penalty", "logprobs", "response_format", "safety_mode", "strict_tools", "documents"),
        *("citation_options", "thinking", "priority", "stream"),
    )
)
NAMES = {"max_tokens": "max_tokens", "temperature": "temperature", "top_p": "p", "stop": "stop_sequences"}
"""The names of neutral parameters that have the same values here."""
# "Base64 images up to 20MB" in all (its page on image inputs).
LARGEST = 20_000_000
NO_OUTPUT = "[no output]"
PLAN = "tool_plan"


class CohereWriter(Writer):
    """Writes the body of `POST /v2/chat`."""

    def begin(self) -> None:
        # An answer in JSON cannot be combined with tools or documents.
        self.may_be_json = not (self.preamble.tools or self.preamble.card.parameters.get("documents"))
        own = PARAMETERS if self.may_be_json else PARAMETERS - {"response_format"}
        self.asked = parameters(self.builder, self.preamble, own, self._say)
        self.builder.explain_persona(self.preamble, message=0)
        if self.preamble.persona:
            self.builder.messages.append({"role": "system", "content": self.preamble.persona})
        self.tools = tool_shapes(self.preamble, _tool)

    def write(self, messages: Sequence[Message]) -> None:
        late: list[Message] = []
        for message in messages:
            if message.role != "tool":
                self._show(late)
            match message.role:
                case "assistant":
                    self._assistant(message)
                case "tool":
                    self._result(message)
                    late += [message] if media(message) else []
                case "system":
                    said = texts(message) + [placeholder(part, "not shown") for part in media(message)]
                    self._add(message, {"role": "system", "content": "\n".join(said)})
                case "user":
                    self._user(message)
        self._show(late)

    def close(self, messages: Sequence[Message]) -> Body:
        self.write(messages)
        explain_tools(self.builder, self.preamble, self.tools)
        body: Body = {"model": self.preamble.model, "messages": self.builder.messages.copy()}
        if self.tools:
            body["tools"] = self.tools
            if all(tool.strict for tool in self.preamble.tools):
                body["strict_tools"] = True
        return body | self.asked

    def _say(self, name: str, value: Any) -> Body | None:
        """Return a neutral parameter in this API's words."""
        match name:
            case "tool_choice" if value.mode in ("required", "none"):
                return {"tool_choice": value.mode.upper()}
            case "tool_choice" if value.mode == "auto":
                return {}
            case "output" if self.may_be_json:
                return {"response_format": {"type": "json_object", "json_schema": value.schema}}
            case _:
                return {NAMES[name]: value} if name in NAMES else None

    def _add(self, message: Message, written: Body, rule: str = "", carried: Sequence[Part] = ()) -> None:
        self.builder.messages.append(written)
        late = message.rule == "media-after-results"
        self.builder.explain(message, written, rule=rule, continues=late, carried=carried)

    def _assistant(self, message: Message) -> None:
        content: list[Body] = []
        calls: list[Body] = []
        cited: list[TextPart] = []
        rule = ""
        written: Body = {"role": "assistant"}
        asks = any(isinstance(part, ToolCall) for part in message.parts)
        for part in message.parts:
            match part:
                case TextPart() | RefusalPart():
                    content.append({"type": "text", "text": part.text})
                    if isinstance(part, TextPart) and self._is_family(part, message):
                        cited.append(part)
                case ReasoningPart(text=text, id=id) if (
                    id == PLAN and asks and self._is_family(part, message)
                ):
                    written[PLAN] = text
                case ReasoningPart(text=text, id="") if text and self._is_family(part, message):
                    content.append({"type": "thinking", "thinking": text})
                case ToolCall() as call:
                    shape, mended = self._call(message, len(calls), call)
                    calls.append(shape)
                    rule = rule or mended
                case ReasoningPart() | ProviderPart():
                    self.builder.omit(message, part)
                case _:
                    pass
        if not (calls or any(block["type"] == "text" for block in content)):
            return
        if content:
            written["content"] = content[0]["text"] if _is_text(content) else content
        if calls:
            written["tool_calls"] = calls
        if cited:
            written["citations"] = [one for part in cited for one in provider_form(part)["citations"]]
        self._add(message, written, rule, cited)

    def _is_family(self, part: TextPart | ReasoningPart, message: Message) -> bool:
        """Return whether a thought, or a text with citations, is of the family that is asked now."""
        if isinstance(part, TextPart) and "citations" not in provider_form(part):
            return False
        return goes_back(part, message, self.preamble, PROVIDERS)

    def _call(self, message: Message, nth: int, call: ToolCall) -> tuple[Body, str]:
        """Return a call as it is written, and the rule that mended it."""
        id, new_id = self.ids.give(message.calls[nth], call)
        name = tool_name(called(call))
        arguments, wrapped = arguments_text(call.arguments)
        renamed = "tool-name" if name != called(call) else "call-id" if new_id else ""
        shape = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        return shape, "raw-arguments" if wrapped else renamed

    def _result(self, message: Message) -> None:
        assert message.call is not None
        text = "\n".join(texts(message) + [placeholder(part, "shown below") for part in media(message)])
        rule = "empty-error" if message.failed and not text.strip() else ""
        content = NO_OUTPUT if rule else text
        written = {"role": "tool", "tool_call_id": self.ids.of(message.call), "content": content}
        self._add(message, written, rule)

    def _show(self, late: list[Message]) -> None:
        """Write the pictures of the results just written, once no further result follows."""
        for message in late:
            parts = tuple(media(message))
            self._user(message._replace(role="user", parts=parts, rule="media-after-results"))
        late.clear()

    def _user(self, message: Message) -> None:
        blocks, rule = content_blocks(message, self._medium, lambda part: self.builder.fits(part, LARGEST))
        if blocks:
            content = blocks[0]["text"] if _is_text(blocks) else blocks
            self._add(message, {"role": "user", "content": content}, rule)

    def _medium(self, part: ImagePart | FilePart) -> Body:
        """Return a picture; a file, and a missing blob, as a line of text."""
        data = self.builder.data(part)
        if isinstance(part, ImagePart) and part.media_type in PICTURES:
            url: Any = part.url if part.url.startswith(("https://", "http://")) else ""
            if data is not None:
                url = BlobText(f"data:{part.media_type};base64,", data, data.blob)
            if url:
                return {"type": "image_url", "image_url": {"url": url}}
        why = "is not available" if data is None else "is not shown"
        return {"type": "text", "text": placeholder(part, why)}


def _is_text(content: list[Body]) -> bool:
    """Return whether a content is one text alone, which is written as such."""
    return len(content) == 1 and content[0]["type"] == "text"


def _tool(tool: Tool) -> Body:
    described = {"description": tool.description} if tool.description else {}
    function = {"name": tool_name(tool.name), **described, "parameters": schema(tool.parameters)}
    return {"type": "function", "function": function}
