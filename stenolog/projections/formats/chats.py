"""Laws and writer of chats with calls in `tool_calls` and results as messages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence, Set
from typing import Any, ClassVar

from stenolog.domain.parts import FilePart, ImagePart, Part, ToolCall
from stenolog.domain.values import Tool
from stenolog.projections.messages.identifiers import (
    arguments_text,
    called,
    fits_id,
    fits_tool_name,
    tool_name,
)
from stenolog.projections.messages.message import BlobText, Body, Message
from stenolog.projections.messages.quoting import placeholder

from . import checks
from .body_builder import PICTURES, content_blocks, explain_tools, media, schema, texts
from .writer import Writer

NO_OUTPUT = "[no output]"


class ToolMessageWriter(Writer):
    """Writer of messages under `messages`, with the tools and what is `asked` of the model beside them.

    Tool messages have only text, so a tool's pictures follow in a message of the user.
    """

    asked: Body
    tools: list[Body]
    about_tools: Body
    """The fields of the body that are about all tools."""
    largest: ClassVar[int]
    """The longest base64 text of a picture or a file."""

    def write(self, messages: Sequence[Message]) -> None:
        late: list[Message] = []
        for message in messages:
            if late and message.role != "tool":
                self._show(late)
            match message.role:
                case "assistant":
                    self.assistant(message)
                case "tool":
                    shown = media(message)
                    self._result(message, shown)
                    # Nothing may stand between the results of one answer.
                    late += [message] if shown else []
                case "system":
                    said = texts(message) + [placeholder(part, "not shown") for part in media(message)]
                    self.add(message, {"role": "system", "content": "\n".join(said)})
                case "user":
                    self._user(message)
        self._show(late)

    def close(self, messages: Sequence[Message]) -> Body:
        self.write(messages)
        explain_tools(self.builder, self.preamble, self.tools)
        body: Body = {"model": self.preamble.model, "messages": self.builder.messages.copy()}
        if self.tools:
            body |= {"tools": self.tools, **self.about_tools}
        return body | self.asked

    @abstractmethod
    def assistant(self, message: Message) -> None:
        """Write an answer."""

    @abstractmethod
    def medium(self, part: ImagePart | FilePart) -> Body:
        """Return a picture or a file as the API takes it, or a line of text."""

    def add(self, message: Message, written: Body, rule: str = "", carried: Sequence[Part] = ()) -> None:
        self.builder.messages.append(written)
        late = message.rule == "media-after-results"
        self.builder.explain(message, written, rule=rule, continues=late, carried=carried)

    def call(self, message: Message, nth: int, call: ToolCall) -> tuple[Body, str]:
        """Return a function call's shape, and the rule that mended it, if any."""
        id, new_id = self.ids.give(message.calls[nth], call)
        name = tool_name(own := called(call))
        arguments, wrapped = arguments_text(call.arguments)
        renamed = "tool-name" if name != own else "call-id" if new_id else ""
        shape = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        return shape, "raw-arguments" if wrapped else renamed

    def _result(self, message: Message, shown: Sequence[ImagePart | FilePart]) -> None:
        assert message.call is not None
        text = "\n".join([*texts(message), *(placeholder(part, "shown below") for part in shown)])
        rule = "empty-error" if message.failed and not text.strip() else ""
        content = NO_OUTPUT if rule else text
        self.add(
            message, {"role": "tool", "tool_call_id": self.ids.of(message.call), "content": content}, rule
        )

    def _show(self, late: list[Message]) -> None:
        for message in late:
            parts = tuple(media(message))
            self._user(message._replace(role="user", parts=parts, rule="media-after-results"))
        late.clear()

    def _user(self, message: Message) -> None:
        blocks, rule = content_blocks(
            message, self.medium, lambda part: self.builder.fits(part, self.largest)
        )
        if blocks:
            self.add(message, {"role": "user", "content": flat(blocks)}, rule)


def data_url(part: ImagePart | FilePart, data: BlobText | None) -> Any:
    """Return a part's bytes as a URL, or its own URL, or ""."""
    if data is not None:
        return BlobText(f"data:{part.media_type};base64,", data, data.blob)
    return part.url if part.url.startswith(("https://", "http://")) else ""


def picture(part: ImagePart | FilePart, data: BlobText | None) -> Body | None:
    """Return a picture as a block; None for a file or a picture that cannot be shown."""
    if isinstance(part, ImagePart) and part.media_type in PICTURES and (url := data_url(part, data)):
        return {"type": "image_url", "image_url": {"url": url}}
    return None


def in_words(part: ImagePart | FilePart, data: BlobText | None) -> Body:
    """Return a part that cannot be shown as a line of text."""
    return {"type": "text", "text": placeholder(part, "is not available" if data is None else "is not shown")}


def flat(content: list[Body]) -> str | list[Body] | None:
    """Return one text as a string, nothing as null, else the list."""
    if not content:
        return None
    if len(content) == 1 and content[0]["type"] == "text":
        text: str = content[0]["text"]
        return text
    return content


def function_shape(tool: Tool) -> Body:
    """Return a tool as a function, without `strict`."""
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool_name(tool.name), **described, "parameters": schema(tool.parameters)}


def _calls(at: str, message: Body) -> Iterator[tuple[str, Body]]:
    return ((f"{at}/tool_calls/{k}", call) for k, call in enumerate(message.get("tool_calls") or []))


def _called(message: Body) -> tuple[str, ...]:
    return tuple(call["id"] for _, call in _calls("", message))


def _without(ids: tuple[str, ...], id: object) -> tuple[str, ...]:
    at = ids.index(id) if id in ids else len(ids)
    return ids[:at] + ids[at + 1 :]


@checks.law
def messages_present(body: Body) -> checks.Findings:
    """A request holds at least one message."""
    if not body.get("messages"):
        yield "/messages", "no message"


@checks.stateful(lambda: ("", ()), waits=True)
def every_call_answered(waiting: tuple[str, tuple[str, ...]], at: str, message: Body) -> checks.Steps:
    """Each tool call is answered by exactly one tool message, directly after its message."""
    asked, ids = waiting
    if message.get("role") == "tool":
        return asked, _without(ids, message.get("tool_call_id"))
    for id in ids:
        yield asked, f"call {id!r} has no result"
    return at, _called(message)


@checks.stateful(tuple)
def every_result_has_its_call(ids: tuple[str, ...], at: str, message: Body) -> checks.Steps:
    """Each tool message answers a call of the assistant message before it, and no call twice."""
    if message.get("role") != "tool":
        return _called(message)
    if message.get("tool_call_id") not in ids:
        yield f"{at}/tool_call_id", repr(message.get("tool_call_id"))
    return _without(ids, message.get("tool_call_id"))


@checks.stateful(checks.PersistentSet)
def call_ids(seen: checks.PersistentSet, at: str, message: Body) -> checks.Steps:
    """The ids of calls are unique in the request, of letters, digits, _ and -, at most 40 long."""
    if message.get("tool_calls") == []:
        yield f"{at}/tool_calls", "an empty list"
    named = ((f"{place}/id", call.get("id", "")) for place, call in _calls(at, message))
    return (yield from checks.unfit(named, fits_id, seen))


@checks.per_message
def content_present(at: str, message: Body) -> checks.Findings:
    """A message says something: no content only beside calls, no empty list, no blank text but a tool's."""
    content = message.get("content")
    if content is None and message.get("role") == "assistant" and message.get("tool_calls"):
        return
    if content is None or content == [] or (checks.blank(content) and message.get("role") != "tool"):
        yield f"{at}/content", f"{content!r}"
    for k, part in enumerate(content if isinstance(content, list) else []):
        if part["type"] == "text" and checks.blank(part["text"]):
            yield f"{at}/content/{k}/text", "a blank text"


@checks.per_message
def media_from_the_user(at: str, message: Body) -> checks.Findings:
    """Only the user shows pictures and files."""
    if message.get("role") == "user" or not isinstance(message.get("content"), list):
        return
    for k, part in enumerate(message["content"]):
        if part["type"] not in ("text", "refusal"):
            yield f"{at}/content/{k}/type", part["type"]


@checks.law
def ends_with_a_user_turn(body: Body) -> checks.Findings:
    """The last message is not the assistant's."""
    turns = body.get("messages")
    if turns and turns[-1].get("role") == "assistant":
        yield f"/messages/{len(turns) - 1}/role", "assistant"


def _unfit_names(at: str, message: Body) -> checks.Findings:
    for place, call in _calls(at, message):
        kind = call.get("type", "function")
        if not fits_tool_name(call[kind]["name"]):
            yield f"{place}/{kind}/name", repr(call[kind]["name"])


@checks.collected(_unfit_names)
def tool_names(body: Body, called: Sequence[checks.Finding]) -> checks.Findings:
    """The names of tools are of letters, digits, _ and -, at most 64 long, and declared once."""
    yield from called
    tools = enumerate(body.get("tools", []))
    declared = ((f"/tools/{i}/function/name", tool["function"]["name"]) for i, tool in tools)
    yield from checks.unfit(declared, fits_tool_name)


@checks.per_message
def arguments_are_objects(at: str, message: Body) -> checks.Findings:
    """The arguments of a function's call are the text of a JSON object; a custom tool's input is a text."""
    for place, call in _calls(at, message):
        if call.get("type") == "custom":
            if not isinstance(call["custom"].get("input"), str):
                yield f"{place}/custom/input", f"{call['custom'].get('input')!r:.60}"
        elif not checks.is_object(call["function"]["arguments"]):
            yield f"{place}/function/arguments", f"{call['function']['arguments']!r:.60}"


@checks.law
def tools_declared(body: Body) -> checks.Findings:
    """Tools are a list that is not empty, and nothing chooses among tools, or binds them, without them."""
    if body.get("tools") == []:
        yield "/tools", "an empty list"
    for key in ("tool_choice", "parallel_tool_calls", "strict_tools"):
        if key in body and not body.get("tools"):
            yield f"/{key}", "no tools"


def known_roles(roles: Set[str]) -> checks.Law:
    """Return the law that a message has one of these roles."""

    @checks.per_message
    def known_roles(at: str, message: Body) -> checks.Findings:
        """A message has one of the known roles."""
        if message.get("role") not in roles:
            yield f"{at}/role", repr(message.get("role"))

    return known_roles
