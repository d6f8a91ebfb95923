"""Builder of a request's body, with an explanation of each part, for all writers."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import Any, NamedTuple

from stenolog.domain.base.model import deep_copy_json
from stenolog.domain.parts import FilePart, ImagePart, Part, ProviderPart, RefusalPart, TextPart, ToolCall
from stenolog.domain.values import Tool
from stenolog.projections.formats.readable import pictures
from stenolog.projections.formats.readable import texts as said_in
from stenolog.projections.messages import sizes
from stenolog.projections.messages.explanation import Disposition, Omitted, RequestPart
from stenolog.projections.messages.identifiers import arguments_object, called, tool_name
from stenolog.projections.messages.message import BlobText, Body, Message, Preamble, Rendered, Section
from stenolog.projections.messages.quoting import TOO_LARGE, note, placeholder, quote
from stenolog.projections.messages.rules import NOT_CARRIED

PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
ANSWERS = frozenset({"response_format", "text", "output_config", "generationConfig"})
"""The parameters of the APIs that hold the JSON Schema of the answer, if there is one."""
NO_FORMS: Mapping[int, Body] = {}
OPENING = note("the conversation begins with your own words")
"""The message that an API puts before an agent's own words, if it wants the user to begin."""


class BuilderSavepoint(NamedTuple):
    """A place in a body: the number of messages, and the last one as it was."""

    messages: int
    last: Body | None


class BodyBuilder:
    """A collector of a body's messages, which explains every part if asked.

    Returned messages never change: the last one is continued in a copy. `missing`: a requested blob was
    missing.
    """

    def __init__(
        self, blobs: Mapping[str, bytes], counter: sizes.Counter = sizes.ESTIMATE, *, explaining: bool = True
    ) -> None:
        self.messages: list[Body] = []
        self.parts: list[RequestPart] = []
        self.omitted: list[Omitted] = []
        self.blobs = blobs
        self.counter = counter
        self.explaining = explaining
        self.missing = self.has_media = False
        self._handed_out = 0

    def savepoint(self) -> BuilderSavepoint:
        """Return a savepoint for `rollback`; messages before it do not change from now on."""
        self._handed_out = len(self.messages)
        return BuilderSavepoint(self._handed_out, self.messages[-1] if self.messages else None)

    def rollback(self, savepoint: BuilderSavepoint) -> None:
        """Undo everything since a savepoint."""
        del self.messages[savepoint.messages :]
        if savepoint.last is not None:
            self.messages[-1] = savepoint.last
        self._handed_out = savepoint.messages

    @property
    def stays(self) -> int:
        """The number of messages that no longer change; the last returned one may go on, in a copy."""
        return max(self._handed_out - 1, 0)

    def last(self, key: str) -> list[Body]:
        """Return the last message's list under a key, to append to."""
        if len(self.messages) <= self._handed_out:
            # Handed out already, so it is continued in a copy: bodies share their messages.
            self.messages[-1] = {**self.messages[-1], key: [*self.messages[-1][key]]}
            self._handed_out = len(self.messages) - 1
        content: list[Body] = self.messages[-1][key]
        return content

    def explain(
        self,
        message: Message,
        written: object,
        *,
        rule: str = "",
        index: int | None = None,
        continues: bool = False,
        carried: Collection[Part] = (),
    ) -> None:
        """Explain the source of what was just written: its text, or its JSON with all in it.

        `continues`: it belongs to the previous message. `carried` are the parts whose own fields were
        written, or omitted already.
        """
        if not self.explaining:
            return
        # A text of no provider's own is all words: it loses no field, and holds no picture.
        others = [part for part in message.parts if type(part) is not TextPart or part.raw]
        for part in others:
            if isinstance(part, ProviderPart):
                if message.role != "assistant" and part not in carried:
                    self.omit(message, part)
            elif isinstance(part, TextPart | ToolCall) and part.raw and part not in carried:
                self.omit_fields(message, part)
        at = len(self.messages) - 1 if index is None else index
        if message.sections:
            self._explain_sections(message.sections, at, message.role)
            return
        disposition: Disposition = message.disposition if not rule else "reworded"
        out = "".join(said_in(written))
        tokens = self.counter.count(out)
        if others:
            tokens += sizes.IMAGE_TOKENS * pictures(written)
        said = self._message_tokens(message, out, tokens)
        rule = rule or message.rule
        self.parts.append(
            RequestPart(message.positions, disposition, rule, said, tokens, at, message.role, continues)
        )

    def _message_tokens(self, message: Message, out: str, tokens: int) -> int:
        """Return a message's tokens before it was written; an unchanged text is counted once."""
        if message.disposition == "added":
            return 0
        if message.tokens_in >= 0:
            return message.tokens_in
        parts = message.parts
        # Most messages go out as they are, and are counted once.
        as_it_is = len(parts) == 1 and type(parts[0]) is TextPart and parts[0].text == out
        return tokens if as_it_is else sizes.count_parts(parts, self.counter)

    def explain_persona(
        self, preamble: Preamble, *, message: int = -1, written: Callable[[str], str] = str
    ) -> None:
        """Explain the texts before the conversation; `message` -1: they are outside of it.

        `written` returns a text as the API writes it.
        """
        self._explain_sections(preamble.sections, message, "system", written)

    def _explain_sections(
        self, sections: Iterable[Section], message: int, role: str, written: Callable[[str], str] = str
    ) -> None:
        for section in sections if self.explaining else ():
            out = written(section.text)
            tokens = self.counter.count(out)
            given: tuple[Disposition, int] = ("added", 0)
            if section.positions:
                is_same = out == section.text
                given = ("kept", tokens) if is_same else ("reworded", self.counter.count(section.text))
            explained = RequestPart(
                section.positions, given[0], section.rule, given[1], tokens, message, role
            )
            self.parts.append(explained._replace(text=section.text))

    def omit(self, message: Message, part: Part, rule: str = "") -> None:
        """Note a part that this API cannot carry."""
        if not self.explaining:
            return
        what = provider_form(part).get("type", "") if isinstance(part, ProviderPart) else ""
        self.omitted.append(
            Omitted(
                message.positions,
                rule or NOT_CARRIED[type(part)],
                sizes.count_part(part, self.counter),
                str(what),
            )
        )

    def omit_fields(self, message: Message, part: TextPart | ToolCall, names: Iterable[str] = ()) -> None:
        """Note a part's own fields that are not carried; without names, all."""
        if not self.explaining:
            return
        form = provider_form(part)
        lost = {name: form[name] for name in names or form}
        what = str(form.get("type") or ", ".join(lost))
        self.omitted.append(
            Omitted(message.positions, "fields-not-carried", sizes.count_json(lost, self.counter), what)
        )

    def omit_tool(self, preamble: Preamble, tool: Tool) -> None:
        """Note what only another provider takes of a card's tool."""
        form = provider_form(tool)
        what = f"{tool.name}: {form.get('type') or ', '.join(form)}"
        tokens = sizes.count_json(form, self.counter)
        self.omitted.append(Omitted(preamble.set_at, "fields-not-carried", tokens, what))

    def omit_parameters(self, preamble: Preamble, lost: Body) -> None:
        """Note the card's parameters without a place on this API."""
        if not self.explaining:
            return
        names = ", ".join(lost)
        self.omitted.append(
            Omitted(preamble.set_at, "parameter-not-carried", sizes.count_json(lost, self.counter), names)
        )

    def explain_parameters(self, preamble: Preamble, said: Body) -> None:
        """Explain the size of the parameters' schemas."""
        if not self.explaining:
            return
        read = {name: value for name, value in said.items() if name in ANSWERS and sizes.has_schema(value)}
        if read:
            tokens = sizes.count_json(read, self.counter)
            self.parts.append(
                RequestPart(preamble.set_at, "kept", "parameters", tokens, tokens, -1, "parameters")
            )

    def tools(
        self, preamble: Preamble, shape: Callable[[Body], Body] = lambda function: function
    ) -> list[Body]:
        """Return the lane's tools, each in the `shape` of the API, and explain them.

        A tool's `parameters` are a JSON Schema of an object.
        """
        tools = tool_shapes(
            preamble,
            lambda tool: shape(
                {"name": tool.name, "description": tool.description, "parameters": schema(tool.parameters)}
            ),
        )
        explain_tools(self, preamble, tools)
        return tools

    def rendered(self, body: Body) -> Rendered:
        """Return the body with all its explanations."""
        return Rendered(body, tuple(self.parts), tuple(self.omitted))

    def data(self, part: ImagePart | FilePart) -> BlobText | None:
        """Return the base64 of a part's blob; None if it has none, or it is missing."""
        found = self.blobs.get(part.blob) if part.blob else None
        self.missing |= bool(part.blob) and found is None
        self.has_media = True
        return BlobText("", base64.b64encode(found).decode(), part.blob) if found else None

    def fits(self, part: ImagePart | FilePart, limit: int) -> bool:
        """Return whether a part's blob has at most `limit` base64 characters; a missing one does."""
        return (len(self.blobs.get(part.blob, b"")) + 2) // 3 * 4 <= limit


def provider_form(part: ProviderPart | TextPart | ToolCall | Tool) -> Body:
    """Return what only its provider understands of a part or a tool, as an object; else empty."""
    form, broken = arguments_object(part.raw) if part.raw else ({}, True)
    return {} if broken else form


def texts(message: Message) -> list[str]:
    """Return a message's texts; another author's are quoted as one, with the name."""
    said = [part.text for part in message.parts if isinstance(part, TextPart | RefusalPart)]
    if message.speaker and said:
        return [quote("message", "\n".join(said), sender=message.speaker)]
    return said


def media(message: Message) -> list[ImagePart | FilePart]:
    """Return the pictures and files of a message."""
    return [part for part in message.parts if isinstance(part, ImagePart | FilePart)]


def content_blocks(
    message: Message,
    show: Callable[[ImagePart | FilePart], Body],
    fits: Callable[[ImagePart | FilePart], bool] = lambda part: True,
    own: Mapping[int, Body] = NO_FORMS,
) -> tuple[list[Body], str]:
    """Return a message's texts, pictures and files, and the rule if one became a text.

    Others' words come first, quoted as one, with placeholders for their media. What does not fit is not
    shown. `own` are single parts' blocks, by index.
    """
    blocks: list[Body] = []
    rule = ""
    for i, part in enumerate(message.parts):
        if i in own:
            blocks.append(own[i])
        elif isinstance(part, ImagePart | FilePart):
            too_large = not fits(part)
            blocks.append({"type": "text", "text": placeholder(part, TOO_LARGE)} if too_large else show(part))
            if "text" in blocks[-1]:
                rule = "media-too-large" if too_large else "media-as-text"
        elif isinstance(part, TextPart | RefusalPart):
            blocks.append({"type": "text", "text": part.text})
    return (_quoted(blocks, message.speaker) if message.speaker else blocks), rule


def _quoted(blocks: list[Body], speaker: str) -> list[Body]:
    said = [block["text"] for block in blocks if "text" in block]
    # As one quotation, so that no part of it stands outside without its author.
    quoted = [{"type": "text", "text": quote("message", "\n".join(said), sender=speaker)}] if said else []
    return quoted + [block for block in blocks if "text" not in block]


def tool_function(call: ToolCall) -> dict[str, Any]:
    """Return a call's name and its arguments as an object; other arguments are under `_raw`."""
    return {"name": tool_name(called(call)), "arguments": arguments_object(call.arguments)[0]}


def schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's parameters as all providers take them: an object with properties."""
    return {"properties": {}, **deep_copy_json(parameters), "type": "object"}


def tool_shapes(
    preamble: Preamble, shape: Callable[[Tool], Body], providers: Set[str] = frozenset()
) -> list[Body]:
    """Return the tools in the `shape` of an API, with the fields that only its providers take.

    A provider's own tool goes as it is declared, and to no other.
    """
    shapes: list[Body] = []
    for tool in _tools_for(preamble, providers):
        own = provider_form(tool) if tool.raw and tool.provider in providers else {}
        shapes.append(own if "type" in own else {**shape(tool), **own})
    return shapes


def _tools_for(preamble: Preamble, providers: Set[str]) -> list[Tool]:
    return [
        tool
        for tool in preamble.tools
        if not tool.raw or tool.provider in providers or "type" not in provider_form(tool)
    ]


def explain_tools(
    builder: BodyBuilder, preamble: Preamble, tools: list[Body], providers: Set[str] = frozenset()
) -> None:
    """Explain the card's tools in one part, the stubs in another; note what is not carried."""
    if not builder.explaining:
        return
    for tool in preamble.tools:
        if tool.raw and tool.provider not in providers:
            builder.omit_tool(preamble, tool)
    carried = _tools_for(preamble, providers)
    for made, rule in ((False, "tools"), (True, "tool-stub")):
        written = [
            shape for tool, shape in zip(carried, tools, strict=True) if (tool.name in preamble.stubs) is made
        ]
        if written:
            tokens = sizes.count_json(written, builder.counter)
            kept: tuple[tuple[int, ...], Disposition] = ((), "added") if made else (preamble.set_at, "kept")
            builder.parts.append(RequestPart(*kept, rule, 0 if made else tokens, tokens, -1, "tools"))
