"""The body of Cohere's Chat API, version 2.

The thoughts before calls are their `tool_plan`. Thoughts and citations go back to their family.
"""

from __future__ import annotations

from typing import Any

from stenolog.domain import parts
from stenolog.domain.values import Tool
from stenolog.projections.formats.chats import ToolMessageWriter, flat, function_shape, in_words, picture
from stenolog.projections.messages.message import Body, Message

from ..body_builder import (
    provider_form,
    tool_shapes,
)
from ..model_families import goes_back
from ..parameters import parameters

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
PLAN = "tool_plan"


class CohereWriter(ToolMessageWriter):
    """Writes the body of `POST /v2/chat`."""

    # "Base64 images up to 20MB" in all (its page on image inputs).
    largest = 20_000_000

    def begin(self) -> None:
        # An answer in JSON cannot be combined with tools or documents.
        self.may_be_json = not (self.preamble.tools or self.preamble.card.parameters.get("documents"))
        own = PARAMETERS if self.may_be_json else PARAMETERS - {"response_format"}
        self.asked = parameters(self.builder, self.preamble, own, self._say)
        self.builder.explain_persona(self.preamble, message=0)
        if self.preamble.persona:
            self.builder.messages.append({"role": "system", "content": self.preamble.persona})
        self.tools = tool_shapes(self.preamble, _tool)
        is_strict = all(tool.strict for tool in self.preamble.tools)
        self.about_tools = {"strict_tools": True} if is_strict else {}

    def _say(self, name: str, value: Any) -> Body | None:
        match name:
            case "tool_choice" if value.mode in ("required", "none"):
                return {"tool_choice": value.mode.upper()}
            case "tool_choice" if value.mode == "auto":
                return {}
            case "output" if self.may_be_json:
                return {"response_format": {"type": "json_object", "json_schema": value.schema}}
            case _:
                return {NAMES[name]: value} if name in NAMES else None

    def assistant(self, message: Message) -> None:
        content: list[Body] = []
        calls: list[Body] = []
        cited: list[parts.TextPart] = []
        rule = ""
        written: Body = {"role": "assistant"}
        asks = any(isinstance(part, parts.ToolCall) for part in message.parts)
        for part in message.parts:
            match part:
                case parts.TextPart() | parts.RefusalPart():
                    content.append({"type": "text", "text": part.text})
                    if isinstance(part, parts.TextPart) and self._is_family(part, message):
                        cited.append(part)
                case parts.ReasoningPart(text=text, id=id) if (
                    id == PLAN and asks and self._is_family(part, message)
                ):
                    written[PLAN] = text
                case parts.ReasoningPart(text=text, id="") if text and self._is_family(part, message):
                    content.append({"type": "thinking", "thinking": text})
                case parts.ToolCall() as call:
                    shape, mended = self.call(message, len(calls), call)
                    calls.append(shape)
                    rule = rule or mended
                case parts.ReasoningPart() | parts.ProviderPart():
                    self.builder.omit(message, part)
                case _:
                    pass
        if not (calls or any(block["type"] == "text" for block in content)):
            return
        if content:
            written["content"] = flat(content)
        if calls:
            written["tool_calls"] = calls
        if cited:
            written["citations"] = [one for part in cited for one in provider_form(part)["citations"]]
        self.add(message, written, rule, cited)

    def _is_family(self, part: parts.TextPart | parts.ReasoningPart, message: Message) -> bool:
        if isinstance(part, parts.TextPart) and "citations" not in provider_form(part):
            return False
        return goes_back(part, message, self.preamble, PROVIDERS)

    def medium(self, part: parts.ImagePart | parts.FilePart) -> Body:
        data = self.builder.data(part)
        return picture(part, data) or in_words(part, data)


def _tool(tool: Tool) -> Body:
    return {"type": "function", "function": function_shape(tool)}
