"""Blocks of Anthropic's own tools, which go back to it whole or not at all: a call with its result."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import NamedTuple

from stenolog.domain.parts import Part, ProviderPart, TextPart, ToolCall
from stenolog.projections.formats.body_builder import BodyBuilder, provider_form
from stenolog.projections.formats.model_families import goes_back, same_family
from stenolog.projections.messages.message import Body, Message, Preamble

OWN_CALLS = {"server_tool_use": re.compile(r"srvtoolu_[a-zA-Z0-9_]+"), "mcp_tool_use": re.compile(r"[\w-]+")}
"""The calls that Anthropic runs itself, and the form of their ids."""
FIELDS = {"text": "citations", "tool_call": "caller"}
"""The field of the provider's own that a text and a call may have."""
USER_BLOCKS = frozenset({"search_result", "container_upload"})
RESULT_BLOCKS = frozenset({"search_result", "tool_reference"})
"""Blocks of the provider's own that a user's message and a result may have."""


class OwnBlocks(NamedTuple):
    """A message's blocks of its provider's own making, by the part's index.

    `calls` are the ids of its own calls in the turn that go back, `open` those of all. `is_family`: a model
    of the current model's family said the message.
    """

    blocks: dict[int, Body]
    calls: set[str]
    open: Set[str] = frozenset()
    providers: Set[str] = frozenset()
    is_family: bool = False


def own_tools(
    run: Sequence[Message], preamble: Preamble, providers: Set[str], *, paused: bool = False
) -> list[OwnBlocks]:
    """Return the provider's own blocks of a turn: calls, each with one result, and compactions.

    In a `paused` turn calls still await results.
    """
    asked_for: dict[str, tuple[int, int, Body]] = {}
    own_calls = [*OWN_CALLS][: 1 if preamble.version < 6 else None]
    made = [OwnBlocks({}, set()) for _ in run]
    for nth, message in enumerate(run):
        for i, part in enumerate(message.parts):
            if not isinstance(part, ProviderPart) or not goes_back(part, message, preamble, providers):
                continue
            block = provider_form(part)
            kind, id = str(block.get("type")), str(block.get("tool_use_id") or block.get("id"))
            # An id of another form is none that Anthropic gave.
            if kind in own_calls and OWN_CALLS[kind].fullmatch(id):
                asked_for.setdefault(id, (nth, i, block))
            elif kind.endswith("_tool_result") and id in asked_for and id not in made[0].calls:
                at, index, call = asked_for[id]
                made[at].blocks[index] = call
                made[nth].blocks[i] = block
                made[0].calls.add(id)
            # What stands before it need not be read again; an empty one is refused.
            elif kind == "compaction" and preamble.version > 5 and block.get("content") != "":
                made[nth].blocks[i] = block
    for id, (nth, i, block) in asked_for.items() if paused else ():
        if id not in made[0].calls:
            made[nth].blocks[i] = block
            made[0].calls.add(id)
    return [
        OwnBlocks(
            own.blocks, made[0].calls, asked_for.keys(), providers, same_family(message.model, preamble.model)
        )
        for own, message in zip(made, run, strict=True)
    ]


def fields(builder: BodyBuilder, part: TextPart | ToolCall, message: Message, own: OwnBlocks) -> Body:
    """Return the provider's own field of a text or a call, if it may go back; note what does not."""
    name, given = FIELDS[part.type], provider_form(part)
    found = given.get(name) if own.is_family and part.provider in own.providers else None
    kept: Body = {}
    match found:
        case [dict(), *_]:
            # Answers tell the id of a file that requests must not have.
            kept = {name: [_without(each, "file_id") for each in found if isinstance(each, dict)]}
        case {"tool_id": id} if id in own.calls:
            kept = {name: found}
        case _:
            pass
    # The container is a field of the whole body, while the program waits in it.
    if lost := given.keys() - kept.keys() - ({"container"} if kept else set()):
        builder.omit_fields(message, part, sorted(lost))
    return kept


def program_of(part: Part) -> tuple[str, str]:
    """Return the id of the program that made a call, and its container, or ""."""
    form = provider_form(part) if isinstance(part, ToolCall) and part.raw else {}
    caller = form.get("caller")
    return str(caller.get("tool_id", "") if isinstance(caller, dict) else ""), str(form.get("container", ""))


def _without(block: Body, field: str) -> Body:
    return {name: value for name, value in block.items() if name != field}


def own_blocks(message: Message, names: Set[str], providers: Set[str]) -> dict[int, Body]:
    """Return the provider's own blocks in a user's message or a result, by the part's index.

    A result refers only to declared tools.
    """
    if message.speaker or message.failed:
        return {}
    allowed = RESULT_BLOCKS if message.role == "tool" else USER_BLOCKS
    found: dict[int, Body] = {}
    for i, part in enumerate(message.parts):
        if isinstance(part, ProviderPart | TextPart) and part.raw and part.provider in providers:
            block = provider_form(part)
            is_there = block.get("tool_name", "") in names or block.get("type") != "tool_reference"
            if block.get("type") in allowed and is_there:
                found[i] = block
    return found
