"""Receipts of recorded requests: a patch from what stenolog builds to what was sent, verified at once."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from stenolog.adapters.models.egress import behaviour
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.apps.tap.exchanges.wire import WireRequest
from stenolog.domain.errors import CallerError, StoredDataError
from stenolog.domain.values import Receipt
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.json_fields import Blobs, same_from_start
from stenolog.projections.requests import Request
from stenolog.projections.requests.as_sent import RAW, Patch, expanded, sent_body, without_halves
from stenolog.projections.requests.recipe import Recipe, Source, folded, recipe_of
from stenolog.projections.requests.transport import DEFAULT_STYLE, Transport

from .lane import Anchor

STYLES = (DEFAULT_STYLE, "spaced", "html")
SLACK = 4
"""Messages before the end of the last request in which new ones may refer to, since they may be continued."""


class Made(NamedTuple):
    """A receipt, its whole patch, and the blobs of both. `is_raw`: the bytes had to be kept."""

    receipt: Receipt
    patch: Patch
    blobs: Blobs
    is_raw: bool


def receipt_for(
    exchange: RecordedExchange, sent: WireRequest, built: Request, hashes: Sequence[str], anchor: Anchor
) -> Made:
    """Return a request's receipt, which proves that it can be rebuilt byte for byte.

    The patch extends the anchor's if that gives the same bytes.
    """
    blobs: Blobs = {}
    content = exchange.body
    patch, plan = _patch(sent, built, hashes, anchor, blobs)
    body = _tried(patch, built, sent, content, blobs)
    if body is None and anchor.position:
        blobs = {}  # no blob is kept that the receipt does not name: nothing would remove it
        patch, plan = _patch(sent, built, hashes, Anchor(), blobs)
        body = _tried(patch, built, sent, content, blobs)
    if body is None:
        patch, plan, body, blobs = Patch(), {RAW: True}, without_halves(sent.sent), {}
    as_sent = replace(built, body=body, encoded=None, patch=plan, messages_key=sent.key)
    if exchange.is_parsed:
        return Made(as_sent.receipt, patch, blobs, is_raw=False)
    transport = _transport(exchange, body, content, blobs, raw=RAW in plan)
    receipt = replace(as_sent.receipt, sent=exchange.sent_sha256, transport=transport.json)
    return Made(receipt, patch, blobs, transport.style == "raw")


def _tried(
    patch: Patch, built: Request, sent: WireRequest, content: bytes, blobs: Mapping[str, bytes]
) -> dict[str, Any] | None:
    try:
        body = sent_body(patch, built.body, sent.key, blobs)
        written = compact(body)
        # Most clients write as we do, and then the bytes tell all at once.
        if written.encode() == content or written == compact(sent.sent):
            return body
    except (StoredDataError, UnicodeError):  # half of a surrogate pair, say, which no event can hold
        return None
    return None


def _patch(
    sent: WireRequest, built: Request, hashes: Sequence[str], anchor: Anchor, blobs: Blobs
) -> tuple[Patch, dict[str, Any]]:
    """Return a patch, whole and as in a receipt."""
    front_source = Source({key: value for key, value in built.body.items() if key != sent.key})
    front = {
        key: folded(recipe_of(value, front_source, blobs), blobs)
        for key, value in sent.body.items()
        if key != sent.key or not sent.is_list
    }
    order = tuple(sent.body)
    base = anchor.patch
    keep = min(same_from_start(anchor.hashes, hashes), len(base.messages)) if sent.is_list else 0
    messages: list[Recipe] = []
    if sent.is_list:
        first = max(anchor.built - SLACK, 0) if keep else 0
        messages = _messages(sent, built, keep, first, blobs)
    plan: dict[str, Any] = {}
    if order != base.order:
        plan["order"] = list(order)
    # By their JSON: two objects that differ in the order of their keys are equal in Python.
    before = {key: compact(recipe) for key, recipe in base.front.items()}
    if changed := {key: recipe for key, recipe in front.items() if before.get(key) != compact(recipe)}:
        plan["front"] = changed
    if anchor.position:
        plan |= {"base": anchor.position, "keep": keep}
    if messages:
        plan["messages"] = messages
    if sent.marks:
        plan["cache"] = sent.marks
    whole = Patch(
        order, {**base.front, **front}, [*base.messages[:keep], *expanded(messages)], tuple(sent.marks)
    )
    return whole, plan


def _messages(sent: WireRequest, built: Request, keep: int, first: int, blobs: Blobs) -> list[Recipe]:
    key, given = built.messages_key, sent.body[sent.key][keep:]
    ours = built.body.get(key)
    if not isinstance(ours, list):
        return [recipe_of(message, Source({}), blobs) for message in given]
    found: Blobs = {}
    recipes = _as_list(recipe_of(given, Source(built.body, key, first), found), len(given))
    if len(compact(recipes)) > COSTLY:
        # Something older was said again, or moved, or is a setting: it is looked for in all that was built.
        found = {}
        recipes = _as_list(recipe_of(given, Source(built.body), found), len(given))
    blobs |= found
    return recipes


def _as_list(recipe: Recipe, number: int) -> list[Recipe]:
    return recipe if isinstance(recipe, list) else [{"$": recipe["$"], "all": [0, number]}]


COSTLY = 4_096
"""Bytes of recipes from which on the whole conversation is searched for what they could refer to."""


def _transport(
    exchange: RecordedExchange, body: dict[str, Any], content: bytes, blobs: Blobs, *, raw: bool
) -> Transport:
    """Return the transport that gives the sent bytes; they are kept if no style does."""
    path = exchange.path.partition("?")[0]
    plain = Transport(
        exchange.method, path, headers=behaviour(exchange.headers), redacted=tuple(exchange.redacted)
    )
    for style in () if raw else STYLES:
        try:
            if plain._replace(style=style).render(body) == content:
                return plain._replace(style=style)
        except (CallerError, UnicodeEncodeError):
            continue
    kept = zlib.compress(content, 6)
    name = sha256(kept).hexdigest()
    blobs[name] = kept
    return plain._replace(style="raw", blob=name)
