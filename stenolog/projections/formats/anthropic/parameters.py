"""Parameters and thinking of a request to Anthropic."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from stenolog.projections.formats.body_builder import BodyBuilder
from stenolog.projections.formats.model_families import has_a_narrow_context, paces_itself
from stenolog.projections.formats.parameters import parameters
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.explanation import RequestPart
from stenolog.projections.messages.message import BlobText, Body, Preamble

# The API demands a limit.
MAX_TOKENS = 4096
"""The token limit of the answer if the card sets none."""
# The API refuses a smaller one.
SMALLEST_BUDGET = 1024
"""Minimum thinking budget in tokens."""
PARAMETERS = frozenset(
    {
        "top_k",
        "stop_sequences",
        "metadata",
        "thinking",
        "service_tier",
        "stream",
        "output_config",
        "context_management",
        "cache",
    }
)
SAMPLING = ("temperature", "top_p", "top_k")
CHOICES = {"auto": "auto", "none": "none", "required": "any", "tool": "tool"}


def anthropic_parameters(builder: BodyBuilder, preamble: Preamble) -> Body:
    """Return the card's parameters, with `cache`, as this API's model takes them."""
    told = parameters(builder, preamble, PARAMETERS, _say)
    said: Body = {"max_tokens": MAX_TOKENS, **told}
    paced = paces_itself(preamble.model)
    manual = isinstance(said.get("thinking"), dict) and said["thinking"].get("type") == "enabled"
    # Models that pace themselves refuse sampling parameters, and so does thinking on a budget.
    refused = SAMPLING if paced else ("temperature", "top_k") if manual else ()
    lost = {name: said.pop(name) for name in refused if name in said}
    if lost:
        builder.omit_parameters(preamble, lost)
    if manual:
        limited = "max_tokens" in told
        said |= _paced(builder, preamble) if paced else _thinking(builder, preamble, said, limited=limited)
    choice = said.get("tool_choice")
    if choice:
        said["tool_choice"] = _choice(
            builder, preamble, {"type": "auto", **choice}, free=manual and not paced
        )
    return said


def _say(name: str, value: Any) -> Body | None:
    match name:
        case "stop":
            return {"stop_sequences": value}
        case "tool_choice":
            named = {"name": value.tool} if value.tool else {}
            return {"tool_choice": {"type": CHOICES[value.mode], **named}}
        case "parallel_tool_calls":
            return {} if value else {"tool_choice": {"disable_parallel_tool_use": True}}
        case "output":
            return {"output_config": {"format": {"type": "json_schema", "schema": value.schema}}}
        case "effort":
            return {"output_config": {"effort": value}}
        case _:
            return {name: value}


def _paced(builder: BodyBuilder, preamble: Preamble) -> Body:
    _mended(builder, preamble, "thinking-mended")
    return {"thinking": {"type": "adaptive"}}


def _thinking(builder: BodyBuilder, preamble: Preamble, said: Body, *, limited: bool) -> Body:
    """Return a large enough budget, in a token limit that leaves room for an answer."""
    given, limit = said["thinking"].get("budget_tokens"), said["max_tokens"]
    budget = max(given, SMALLEST_BUDGET) if type(given) is int else SMALLEST_BUDGET
    # The token limit counts thinking as well, so it must leave room for an answer behind it.
    room = limit if limit > budget else limit + budget
    if budget != given or (limited and room != limit):
        _mended(builder, preamble, "thinking-mended")
    return {
        "thinking": {**said["thinking"], "budget_tokens": budget},
        "max_tokens": room if limited else limit + budget,
    }


def _choice(builder: BodyBuilder, preamble: Preamble, choice: Body, *, free: bool) -> Body:
    """Return the choice among the tools; with `free`, a forced one is left to the model."""
    # Thinking on a budget excludes a forced choice.
    if free and choice["type"] in ("any", "tool"):
        _mended(builder, preamble, "choice-freed")
        choice = {key: value for key, value in choice.items() if key != "name"} | {"type": "auto"}
    if choice["type"] == "none":
        return {"type": "none"}
    return choice


def _mended(builder: BodyBuilder, preamble: Preamble, rule: str) -> None:
    builder.parts.append(RequestPart(preamble.set_at, "reworded", rule, 0, 0, -1, "parameters"))


# Anthropic's page on vision, November 2026: 100 pictures a request for models with a context of 200k, else
# 600; from 21 pictures on, each of at most 2,000 px a side. Its page on errors: 32 MB a request.
PICTURES, PICTURES_WIDE, MANY, LONGEST_SIDE = 100, 600, 20, 2_000
LARGEST_BODY = 32 * 1024 * 1024
_HEAD = 64 * 1024


def pictures_and_bytes(body: Body) -> Iterator[tuple[str, str]]:
    """Yield what exceeds Anthropic's limits: pictures, their sides, the whole body."""
    return beyond_limits(body, [*pictures("/messages", body.get("messages"))])


def beyond_limits(body: Body, shown: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield what exceeds the limits in a body that shows these pictures."""
    most = PICTURES if has_a_narrow_context(str(body.get("model"))) else PICTURES_WIDE
    if len(shown) > most:
        yield "/messages", f"{len(shown)} pictures, at most {most}"
    for place, data in shown if len(shown) > MANY else ():
        if max(_sides(data), default=0) > LONGEST_SIDE:
            yield place, f"more than {LONGEST_SIDE:,} px a side, with more than {MANY} pictures"
    if shown and (size := len(compact(body).encode())) > LARGEST_BODY:
        yield "", f"{size:,} bytes, at most {LARGEST_BODY:,}"


def pictures(at: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield each picture and file in messages with its base64, "" for a link."""
    if isinstance(value, list):
        for i, inner in enumerate(value):
            yield from pictures(f"{at}/{i}", inner)
    elif isinstance(value, dict) and value.get("type") in ("image", "document"):
        data = value.get("source", {}).get("data")
        yield at, str(data) if isinstance(data, BlobText) and value["type"] == "image" else ""
    elif isinstance(value, dict):
        yield from pictures(f"{at}/content", value.get("content"))


def _sides(data: str) -> tuple[int, ...]:
    raw = base64.b64decode(data[: _HEAD * 4])
    if raw.startswith(b"\x89PNG") and len(raw) >= 24:
        return int.from_bytes(raw[16:20], "big"), int.from_bytes(raw[20:24], "big")
    if raw.startswith(b"GIF8") and len(raw) >= 10:
        return int.from_bytes(raw[6:8], "little"), int.from_bytes(raw[8:10], "little")
    at = 2 if raw.startswith(b"\xff\xd8") else len(raw)
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        if 0xC0 <= raw[at + 1] <= 0xCF and raw[at + 1] not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(raw[at + 7 : at + 9], "big"), int.from_bytes(raw[at + 5 : at + 7], "big")
        at += 2 + int.from_bytes(raw[at + 2 : at + 4], "big")
    return ()
