"""The wire of Anthropic Messages.

Messages of one role that follow each other are one turn. Results stand first in the turn behind their
calls; thinking goes back signed and unmodified, to the model family that thought it, and never last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from stenolog.domain.parts import File, Image, Opaque, Reasoning, Refusal, Text, ToolCall
from stenolog.projections.requests.model import Body, Piece, Rendered, compact
from stenolog.projections.requests.names import CallIds, arguments_object, tool_name
from stenolog.projections.requests.prefix import Prefix
from stenolog.projections.requests.quoting import note, quote

from .sheet import PICTURES, Sheet, explain_tools, in_order, media, options, placeholder, schema, texts

NAME = "anthropic"
VERSION = 1
MAX_TOKENS = 4096
"""The token limit of the answer where the card sets none; the API demands one."""
PARAMETERS = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "stop_sequences",
        "metadata",
        "thinking",
        "service_tier",
        "stream",
        "output_config",
    }
)
THINKING = frozenset({"thinking", "redacted_thinking"})
PDF = "application/pdf"
OPENING = note("the conversation begins with your own words")
NO_OUTPUT = "[no output]"


def render(pieces: Sequence[Piece], prefix: Prefix, blobs: Mapping[str, bytes]) -> Rendered:
    """The body of `POST /v1/messages`."""
    sheet = Sheet(blobs)
    if prefix.persona:
        sheet.explain_persona(prefix, prefix.persona)
    ids = CallIds()
    for is_assistant, run in groupby(pieces, key=lambda piece: piece.role == "assistant"):
        if is_assistant:
            _assistant_turn(sheet, list(run), prefix, ids)
        else:
            for piece in run:
                _user_piece(sheet, piece, ids)
    tools = [_tool_shape(tool.name, tool.description, tool.parameters) for tool in prefix.tools]
    explain_tools(sheet, prefix, tools)
    return sheet.rendered(_body(sheet, prefix, tools))


def _body(sheet: Sheet, prefix: Prefix, tools: list[Body]) -> Body:
    body: Body = {"model": prefix.model, "max_tokens": MAX_TOKENS}
    if prefix.persona:
        body["system"] = prefix.persona
    body["messages"] = sheet.messages
    if tools:
        body["tools"] = tools
    body |= options(prefix.card, PARAMETERS)
    match body.get("thinking"):
        case {"budget_tokens": int(budget)} if "max_tokens" not in prefix.card.parameters:
            body["max_tokens"] = budget + MAX_TOKENS
        case _:
            pass
    choice = _tool_choice(prefix.card.parameters.get("tool_choice"), tools)
    return body | {"tool_choice": choice} if choice else body


def _tool_choice(given: Any, tools: list[Body]) -> Body | None:
    """The card's choice among the tools, where it is of this wire's own shape and names a tool there is."""
    match given:
        case {"type": "auto" | "any" | "none"} if tools:
            return dict(given)
        case {"type": "tool", "name": str(name)} if any(tool["name"] == tool_name(name) for tool in tools):
            return {**given, "name": tool_name(name)}
        case _:
            return None


def _turn(sheet: Sheet, role: str) -> list[Body]:
    """The blocks of the turn being written; a new turn where the role changes."""
    if not sheet.messages and role == "assistant":
        _turn(sheet, "user").append({"type": "text", "text": OPENING})
        sheet.explain(Piece("user", (Text(text=OPENING),), (), "opening-note", "added"), OPENING)
    if not sheet.messages or sheet.messages[-1]["role"] != role:
        sheet.messages.append({"role": role, "content": []})
    content: list[Body] = sheet.messages[-1]["content"]
    return content


def _assistant_turn(sheet: Sheet, run: list[Piece], prefix: Prefix, ids: CallIds) -> None:
    """What the lane said without a break; thinking that nothing follows is left out."""
    blocks = [(piece, list(_assistant_blocks(sheet, piece, prefix, ids))) for piece in run]
    while blocks and (not blocks[-1][1] or blocks[-1][1][-1][0]["type"] in THINKING):
        piece, made = blocks[-1]
        if made:
            sheet.omit(piece, Text(text=compact(made.pop()[0])), "trailing-thinking")
        else:
            blocks.pop()
    for piece, made in blocks:
        if made:
            _turn(sheet, "assistant").extend(block for block, _ in made)
            rule = next((mended for _, mended in made if mended), "")
            sheet.explain(piece, "".join(_size(block) for block, _ in made), rule=rule)


def _assistant_blocks(sheet: Sheet, piece: Piece, prefix: Prefix, ids: CallIds) -> Iterator[tuple[Body, str]]:
    """The blocks of one piece, each with the rule that mended it."""
    calls = iter(piece.calls)
    for part in piece.parts:
        match part:
            case Text(text=text) | Refusal(text=text):
                yield {"type": "text", "text": text}, ""
            case ToolCall() as call:
                id, new_id = ids.give(next(calls), call)
                name = tool_name(call.name)
                given, wrapped = arguments_object(call.arguments)
                rule = "raw-arguments" if wrapped else "tool-name" if name != call.name else ""
                block = {"type": "tool_use", "id": id, "name": name, "input": given}
                yield block, rule or ("call-id" if new_id else "")
            case Reasoning():
                thought = _thinking(part, piece, prefix)
                if thought is None:
                    sheet.omit(piece, part, "foreign-reasoning")
                else:
                    yield thought, ""
            case Opaque():
                sheet.omit(piece, part)
            case _:
                pass


def _thinking(part: Reasoning, piece: Piece, prefix: Prefix) -> Body | None:
    """The thinking block, where this model family made it and signed it."""
    if part.provider != NAME or family(piece.model) != family(prefix.model):
        return None
    if part.encrypted:
        return {"type": "redacted_thinking", "data": part.encrypted}
    if part.signature:
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return None


def family(model: str) -> str:
    """The words of a model's name without its numbers: `claude-opus-4-5-20251101` is `claude-opus`."""
    return "-".join(word for word in model.split("-") if word.isalpha())


def _user_piece(sheet: Sheet, piece: Piece, ids: CallIds) -> None:
    blocks: list[Body]
    rule = ""
    if piece.role == "tool":
        block, rule = _tool_result(sheet, piece, ids)
        blocks = [block]
    elif piece.role == "system":
        said = texts(piece) + [placeholder(part, "not shown") for part in media(piece)]
        blocks = [{"type": "text", "text": quote("note", "\n".join(said))}]
    else:
        blocks, rule = in_order(piece, lambda part: _medium(sheet, part))
    if blocks:
        _turn(sheet, "user").extend(blocks)
        sheet.explain(piece, "".join(_size(block) for block in blocks), rule=rule)


def _tool_result(sheet: Sheet, piece: Piece, ids: CallIds) -> tuple[Body, str]:
    assert piece.call is not None
    content: list[Body] = [{"type": "text", "text": text} for text in texts(piece) if text.strip()]
    rule = ""
    if piece.failed:
        content += [{"type": "text", "text": placeholder(part, "not shown")} for part in media(piece)]
        if not content:
            content, rule = [{"type": "text", "text": NO_OUTPUT}], "empty-error"
    else:
        content, rule = in_order(piece, lambda part: _medium(sheet, part))
        content = [shown for shown in content if shown.get("text", "-").strip()]
    block: Body = {"type": "tool_result", "tool_use_id": ids.of(piece.call)}
    if len(content) == 1 and content[0]["type"] == "text":
        block["content"] = content[0]["text"]
    elif content:
        block["content"] = content
    if piece.failed:
        block["is_error"] = True
    return block, rule


def _medium(sheet: Sheet, part: Image | File) -> Body:
    """A picture or a PDF as the API takes it; anything else, or a blob that is gone, as a line of text."""
    kind = "image" if isinstance(part, Image) else "document"
    accepted = part.media_type in PICTURES if isinstance(part, Image) else part.media_type == PDF
    data = sheet.data(part)
    title = {"title": part.name} if isinstance(part, File) and part.name else {}
    if accepted and data is not None:
        source = {"type": "base64", "media_type": part.media_type, "data": data}
        return {"type": kind, "source": source, **title}
    if accepted and part.url.startswith(("https://", "http://")):
        return {"type": kind, "source": {"type": "url", "url": part.url}, **title}
    return {"type": "text", "text": placeholder(part, "is not available" if accepted else "is not shown")}


def _tool_shape(name: str, description: str, parameters: dict[str, Any]) -> Body:
    shape: Body = {"name": tool_name(name)}
    if description:
        shape["description"] = description
    shape["input_schema"] = schema(parameters)
    return shape


def _size(block: Body) -> str:
    """What of a block is counted: its words."""
    if block["type"] in ("image", "document"):
        return ""
    return "".join(_words(value for key, value in block.items() if key not in ("type", "id", "tool_use_id")))


def _words(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            yield compact(value)
