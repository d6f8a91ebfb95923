"""The API of Anthropic Messages.

Consecutive messages of one role are one turn. Results come first in the turn after their calls. Thinking goes
back signed and unmodified, to its model family, and never last. So do pairs of Anthropic's own calls and
results, citations, and the caller of a call whose program is in the turn.

Notes after the conversation are a system turn if the model takes one, else quoted in the user's turn. A
system note of the log is always quoted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain, groupby, islice

from stenolog.domain.lanes.state import PAUSED
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
from stenolog.projections.formats import body_builder
from stenolog.projections.formats.model_families import goes_back, takes_system_turns
from stenolog.projections.formats.writer import Writer
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.identifiers import CallIds, arguments_object, called, tool_name
from stenolog.projections.messages.message import Body, Message, Preamble
from stenolog.projections.messages.quoting import placeholder, quote

from .breakpoints import breakpoints_of, set_breakpoints
from .own_parts import OwnBlocks, fields, own_blocks, own_tools, program_of
from .parameters import anthropic_parameters

NAME = "anthropic"
VERSION = 1
ANTHROPIC = frozenset({NAME})
REFUSED = "refusal"
"""The reason with which an answer stops that is refused: its turn is taken out before going on."""
THINKING = frozenset({"thinking", "redacted_thinking"})
PDF = "application/pdf"
# 5 MB a picture ("image exceeds 5 MB maximum"), and 32 MB a request (its API overview).
LIMITS = {ImagePart: 5 * 1024 * 1024, FilePart: 32 * 1024 * 1024}
"""Characters of base64 that a picture and a file may have."""
NO_OUTPUT = "[no output]"


class AnthropicWriter(Writer):
    """Writer of the body of `POST /v1/messages`; what changes least comes first."""

    def begin(self) -> None:
        super().begin()
        is_strict = self.preamble.version > 5
        self.tools = body_builder.tool_shapes(
            self.preamble, partial(_tool_shape, is_strict=is_strict), ANTHROPIC
        )
        self.names = frozenset(tool.get("name", "") for tool in self.tools)
        self.waiting = []

    def write(self, messages: Sequence[Message]) -> None:
        # A program that waits is written again: whether it goes back depends on what is said next.
        waiting = [*self.waiting, *messages]
        own = OwnTurns(waiting, self.preamble)
        self.waiting = waiting[own.waits_at :]
        self._write(waiting[: own.waits_at], own)

    def _write(self, messages: Sequence[Message], own: OwnTurns) -> None:
        builder, ids = self.builder, self.ids
        numbered = groupby(enumerate(messages), key=lambda each: each[1].role == "assistant")
        for is_assistant, run in numbered:
            if is_assistant:
                turn = [(message, own.blocks[n]) for n, message in run]
                _assistant_turn(builder, turn, self.preamble, ids)
            else:
                for _, message in run:
                    _user_message(builder, message, ids, self.names)

    def close(self, messages: Sequence[Message]) -> Body:
        builder, preamble = self.builder, self.preamble
        conversation, late = _apart(messages)
        if paused := None if late else _paused(conversation, preamble):
            # Nothing may stand behind it; the note at the end is for APIs that cannot go on with it.
            conversation.pop()
        conversation = [*self.waiting, *conversation]
        own = OwnTurns(conversation, preamble, paused, is_end=not late)
        self._write(conversation, own)
        # Taken before the late notes are written, since breakpoints must not stand behind them.
        ends = [*islice(_ends(builder.messages), 2)]
        _late(builder, late, preamble, self.ids)
        body_builder.explain_tools(builder, preamble, self.tools, ANTHROPIC)
        said = anthropic_parameters(builder, preamble)
        chosen = breakpoints_of(said.pop("cache", None), preamble.speaker)
        body: Body = {"model": preamble.model, "max_tokens": said.pop("max_tokens")}
        if preamble.persona:
            body["system"] = preamble.persona
        if self.tools:
            # The last one as a copy: a breakpoint behind it is none of its own size.
            body["tools"] = [*self.tools[:-1], {**self.tools[-1]}]
        body |= said
        if own.container:
            body["container"] = own.container
        chosen.after_prefix(body)
        is_on_turns = bool(late) or chosen.turns > 1
        if not is_on_turns:
            set_breakpoints(chosen.messages, body)
        # A copy, because the builder goes on with its own list for the next request.
        written = builder.messages.copy()
        for index, block in ends if is_on_turns else ():
            written[index] = _marked(written[index], block, chosen.messages)
        body["messages"] = written
        return body


class OwnTurns:
    """The provider's own blocks in a stretch of the conversation, by the message's number.

    A program may wait for our results over several turns. It goes back if it has ended, or if only such
    results follow it; then `container` is the place that it waits in, and `waits_at` the number of its first
    message.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        preamble: Preamble,
        paused: Message | None = None,
        *,
        is_end: bool = True,
    ) -> None:
        self.messages, self.preamble = messages, preamble
        self.blocks: dict[int, OwnBlocks] = {}
        self.waits_at, self.container = len(messages), ""
        waiting: list[list[int]] = []
        for role, run in groupby(range(len(messages)), key=lambda n: messages[n].role):
            if role == "assistant":
                turn = [*run]
                known = [*chain(*waiting), *turn]
                self._take(known, paused=paused is not None and messages[turn[-1]] is paused)
                waiting = [*waiting, turn] if self._container_of(known) else []
            elif role != "tool" and waiting:
                self._give_up(waiting)
                waiting = []
        if waiting and is_end:
            known = [*chain(*waiting)]
            self.waits_at, self.container = known[0], self._container_of(known)
            self._take(known, paused=True)
        else:
            self._give_up(waiting)

    def _take(self, numbers: list[int], *, paused: bool) -> None:
        # Until version 6, what its tools did went back only if it was in one message, and nothing else did.
        parts = [[n] for n in numbers] if self.preamble.version < 6 else [numbers]
        for part in parts:
            own = own_tools([self.messages[n] for n in part], self.preamble, ANTHROPIC, paused=paused)
            self.blocks.update(zip(part, own, strict=True))

    def _give_up(self, turns: Sequence[list[int]]) -> None:
        for turn in turns:
            self._take(turn, paused=False)

    def _container_of(self, numbers: list[int]) -> str:
        own = self.blocks[numbers[0]]
        if self.preamble.version < 6 or not (waiting := own.open - own.calls):
            return ""
        made_by = (program_of(call) for n in numbers for call in self.messages[n].parts)
        return next((container for id, container in made_by if id in waiting), "")


def _ends(messages: Sequence[Body]) -> Iterator[tuple[int, int]]:
    """Yield the user's turns, the last first, and each one's last block, by index."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index]["role"] == "user":
            yield index, len(messages[index]["content"]) - 1


def _marked(message: Body, index: int, lifetime: str) -> Body:
    content = [*message["content"]]
    content[index] = {**content[index]}
    set_breakpoints(lifetime, content[index])
    return {**message, "content": content}


def _apart(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    conversation = list(messages)
    late: list[Message] = []
    # Messages of the log stay in the conversation: they are there in the next request, too.
    of_log = ("system-note", "attributed")
    while conversation and conversation[-1].role == "system" and conversation[-1].rule not in of_log:
        late.insert(0, conversation.pop())
    return conversation, late


def _paused(conversation: Sequence[Message], preamble: Preamble) -> Message | None:
    if len(conversation) < 2 or conversation[-1].rule != "turn-note" or conversation[-2].stop != PAUSED:
        return None
    (own,) = own_tools([conversation[-2]], preamble, ANTHROPIC, paused=True)
    return conversation[-2] if own.blocks else None


def _late(builder: body_builder.BodyBuilder, late: list[Message], preamble: Preamble, ids: CallIds) -> None:
    """Write the notes after the conversation, if the user spoke last: as a system turn, or quoted."""
    behind_user = bool(builder.messages) and builder.messages[-1]["role"] == "user"
    as_turn = behind_user and takes_system_turns(preamble.model)
    for message in late:
        if as_turn:
            text = "\n".join(_noted(message))
            _turn(builder, "system").append({"type": "text", "text": text})
            builder.explain(message, text)
        else:
            _user_message(builder, message, ids)


def _noted(message: Message) -> list[str]:
    return body_builder.texts(message) + [
        placeholder(part, "not shown") for part in body_builder.media(message)
    ]


def _turn(builder: body_builder.BodyBuilder, role: str) -> list[Body]:
    """Return the current turn's blocks; a new one's if the role changes."""
    if not builder.messages and role == "assistant":
        # The API wants the user to begin.
        _turn(builder, "user").append({"type": "text", "text": body_builder.OPENING})
        builder.explain(
            Message("user", (TextPart(text=body_builder.OPENING),), (), "opening-note", "added"),
            body_builder.OPENING,
        )
    if not builder.messages or builder.messages[-1]["role"] != role:
        builder.messages.append({"role": role, "content": []})
    return builder.last("content")


def _assistant_turn(
    builder: body_builder.BodyBuilder, run: list[tuple[Message, OwnBlocks]], preamble: Preamble, ids: CallIds
) -> None:
    """Write the lane's consecutive messages as one turn; omit trailing thinking."""
    if preamble.version > 5:
        run = [each for each in run if not _is_refused(builder, each[0])]
    blocks = [
        (message, list(_assistant_blocks(builder, message, preamble, ids, own))) for message, own in run
    ]
    # Thinking must not stand last in a turn.
    while blocks and (not blocks[-1][1] or blocks[-1][1][-1][0]["type"] in THINKING):
        message, made = blocks[-1]
        if made:
            builder.omit(message, TextPart(text=compact(made.pop()[0])), "trailing-thinking")
        else:
            blocks.pop()
    for message, made in blocks:
        if made:
            _turn(builder, "assistant").extend(block for block, _ in made)
            rule = next((mended for _, mended in made if mended), "")
            written = [block for block, _ in made]
            builder.explain(message, written, rule=rule, carried=message.parts)


def _is_refused(builder: body_builder.BodyBuilder, message: Message) -> bool:
    if message.stop != REFUSED or message.calls:
        return False
    for part in message.parts:
        builder.omit(message, part, "refused-answer")
    return True


def _assistant_blocks(
    builder: body_builder.BodyBuilder, message: Message, preamble: Preamble, ids: CallIds, own: OwnBlocks
) -> Iterator[tuple[Body, str]]:
    calls = iter(message.calls)
    for i, part in enumerate(message.parts):
        match part:
            case TextPart(text=text, raw=raw) if raw:
                yield (
                    {
                        "type": "text",
                        "text": text,
                        **fields(builder, part, message, own),
                    },
                    "",
                )
            case TextPart(text=text) | RefusalPart(text=text):
                yield {"type": "text", "text": text}, ""
            case ToolCall() as call:
                id, new_id = ids.give(next(calls), call)
                name = tool_name(called(call))
                given, wrapped = arguments_object(call.arguments)
                rule = "raw-arguments" if wrapped else "tool-name" if name != called(call) else ""
                block = {"type": "tool_use", "id": id, "name": name, "input": given}
                if call.raw:
                    block |= fields(builder, call, message, own)
                yield block, rule or ("call-id" if new_id else "")
            case ReasoningPart():
                thought = _thinking(part, message, preamble)
                if thought is None:
                    builder.omit(message, part, "foreign-reasoning")
                else:
                    yield thought, ""
            case ProviderPart() if i in own.blocks:
                yield own.blocks[i], ""
            case ProviderPart():
                builder.omit(message, part)
            case _:
                pass


def _thinking(part: ReasoningPart, message: Message, preamble: Preamble) -> Body | None:
    """Return the thinking block, if this model family made it and signed it."""
    if not goes_back(part, message, preamble, ANTHROPIC):
        return None
    if part.encrypted:
        return {"type": "redacted_thinking", "data": part.encrypted}
    if part.signature:
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return None


def _user_message(
    builder: body_builder.BodyBuilder, message: Message, ids: CallIds, names: Set[str] = frozenset()
) -> None:
    blocks: list[Body]
    rule, own = "", own_blocks(message, names, ANTHROPIC)
    if message.role == "tool":
        block, rule = _tool_result(builder, message, ids, own)
        blocks = [block]
    elif message.role == "system":
        # Always quoted: a system turn may not stand before words of the user. What was sent would change when
        # the user speaks next.
        blocks = [{"type": "text", "text": quote("note", "\n".join(_noted(message)))}]
    else:
        blocks, rule = _content(builder, message, own)
    if blocks:
        _turn(builder, "user").extend(blocks)
        carried = [message.parts[i] for i in own]
        builder.explain(message, blocks, rule=rule, carried=carried)


def _tool_result(
    builder: body_builder.BodyBuilder, message: Message, ids: CallIds, own: Mapping[int, Body]
) -> tuple[Body, str]:
    assert message.call is not None
    content: list[Body] = [
        {"type": "text", "text": text} for text in body_builder.texts(message) if text.strip()
    ]
    rule = ""
    # The API refuses pictures in the result of a failed tool, and an empty one.
    if message.failed:
        content += [
            {"type": "text", "text": placeholder(part, "not shown")} for part in body_builder.media(message)
        ]
        if not content:
            content, rule = [{"type": "text", "text": NO_OUTPUT}], "empty-error"
    else:
        content, rule = _content(builder, message, own)
        content = [shown for shown in content if shown.get("text", "-").strip()]
    block: Body = {"type": "tool_result", "tool_use_id": ids.of(message.call)}
    if len(content) == 1 and content[0]["type"] == "text":
        block["content"] = content[0]["text"]
    elif content:
        block["content"] = content
    if message.failed:
        block["is_error"] = True
    return block, rule


def _content(
    builder: body_builder.BodyBuilder, message: Message, own: Mapping[int, Body]
) -> tuple[list[Body], str]:
    fits = lambda part: builder.fits(part, LIMITS[type(part)])  # noqa: E731
    return body_builder.content_blocks(message, lambda part: _medium(builder, part), fits, own)


def _medium(builder: body_builder.BodyBuilder, part: ImagePart | FilePart) -> Body:
    """Return a picture or a PDF as the API takes it; anything else as a line of text."""
    kind = "image" if isinstance(part, ImagePart) else "document"
    accepted = (
        part.media_type in body_builder.PICTURES if isinstance(part, ImagePart) else part.media_type == PDF
    )
    data = builder.data(part)
    title = {"title": part.name} if isinstance(part, FilePart) and part.name else {}
    if accepted and data is not None:
        source = {"type": "base64", "media_type": part.media_type, "data": data}
        return {"type": kind, "source": source, **title}
    if accepted and part.url.startswith(("https://", "http://")):
        return {"type": kind, "source": {"type": "url", "url": part.url}, **title}
    return {"type": "text", "text": placeholder(part, "is not available" if accepted else "is not shown")}


def _tool_shape(tool: Tool, *, is_strict: bool) -> Body:
    shape: Body = {"name": tool_name(tool.name)}
    if tool.description:
        shape["description"] = tool.description
    shape["input_schema"] = body_builder.schema(tool.parameters)
    return {**shape, "strict": True} if tool.strict and is_strict else shape
