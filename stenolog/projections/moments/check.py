"""The check of a moment: its request, built again from its entries, beside the stored one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from stenolog.domain.errors import CallerError
from stenolog.domain.lanes.state import address
from stenolog.domain.values import Receipt
from stenolog.projections.analysis.byte_ranges import byte_ranges
from stenolog.projections.json_checks import JsonDifference, first_difference
from stenolog.projections.messages.body_digest import PROMPT, TURN
from stenolog.projections.messages.body_digest import written as hashed
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS, Counter
from stenolog.projections.requests import Request, build
from stenolog.projections.requests.as_sent import Patches, as_sent
from stenolog.projections.requests.request import PATCH
from stenolog.projections.requests.transport import Transport

from .entry_lines import read_entries

HOW = ("live", "ignore")
ORDER = "the order of the keys"
NO_PATCHES = Patches(lambda position: None)


class MomentDifference(NamedTuple):
    """The first difference: its JSON pointer, both values, and the part that it is in.

    `rule` and `positions` are the part's, of the request as it is built now; empty without a part.
    """

    pointer: str
    expected: str
    found: str
    rule: str = ""
    positions: tuple[int, ...] = ()


def moment_difference(
    moment: Mapping[str, Any],
    entries: str,
    expected: str,
    *,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    fields: Mapping[str, str] | None = None,
    counters: Mapping[str, Counter] = COUNTERS,
) -> MomentDifference | None:
    """Return the first difference between the request that is built now and the stored one, or None.

    `moment` is that of `moment_data`, `entries` its lines, `expected` the body. Raises `CallerError` for
    invalid fields, and as `build`.
    """
    body = json.loads(expected)
    compared = _fields(fields or {}, body)
    request = build(
        read_entries(moment["conversation"], entries),
        moment["agent"],
        task=moment["task"],
        api=moment["api"].partition("@")[0],
        policy=moment["policy"],
        blobs=blobs,
        counters=counters,
    )
    if PATCH in moment:
        plan, transport = {PATCH: moment[PATCH]}, moment["transport"]
        receipt = Receipt(view=request.at, sha256=moment["sha256"], plan=plan, transport=transport)
        request = as_sent(request, receipt, NO_PATCHES, blobs)
    found = json.loads(hashed(request.body))
    if different := first_difference(body, found, fields=compared):
        return _explained(_in_turn(different, body, found), request)
    if compared:
        return None
    if request.sha256 != moment["sha256"]:
        return MomentDifference(ORDER, moment["sha256"], request.sha256)
    sent = sha256(Transport.of(moment["transport"]).render(request.body, blobs)).hexdigest()
    if sent != moment["sent"]:
        return MomentDifference("the bytes sent", moment["sent"], sent)
    return None


def in_words(moment: Mapping[str, Any], different: MomentDifference) -> str:
    """Say where a request differs, and which part it is in."""
    part = different.rule or "no part of the request"
    if different.positions:
        several = len(different.positions) > 1
        part += f", entr{'ies' if several else 'y'} {', '.join(map(str, different.positions))}"
    whose = address(moment["agent"], moment["task"])
    return "\n".join(
        (
            f"the request of {whose} at {moment['at']} differs at {different.pointer}",
            f"  expected  {different.expected}",
            f"  found     {different.found}",
            f"  part      {part}",
        )
    )


def _fields(fields: Mapping[str, str], body: object) -> Mapping[str, str]:
    """Return the fields that are compared otherwise. Raises `CallerError` for an unknown one."""
    for pointer, how in fields.items():
        if how not in HOW:
            raise CallerError(f"{pointer}: expected one of {', '.join(HOW)}, found {how!r:.60}")
        if how == "live" and not _is_there(body, pointer):
            raise CallerError(f"{pointer}: expected a field of the request, found none there")
    return fields


def _is_there(value: Any, pointer: str) -> bool:
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            return False
    return True


def _in_turn(different: JsonDifference, body: Mapping[str, Any], found: Mapping[str, Any]) -> JsonDifference:
    if different.pointer != f"/{PROMPT}":
        return different
    turns = [[*TURN.split(str(each.get(PROMPT, "")))] for each in (body, found)]
    pairs = enumerate(zip(*turns, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(map(len, turns)))
    told = first_difference(turns[0][at : at + 1], turns[1][at : at + 1])
    return different if told is None else told._replace(pointer=f"/{PROMPT}, turn {at}")


def _explained(different: JsonDifference, request: Request) -> MomentDifference:
    style = "text" if PROMPT in request.body else "compact"
    whose = ""
    parts: tuple[int, ...] = ()
    longest = -1
    for each in byte_ranges(request, Transport(style=style)):
        is_around = f"{different.pointer}/".startswith(f"{each.pointer}/")
        is_inside = f"{each.pointer}/".startswith(f"{different.pointer}/")
        if each.parts and (is_around or is_inside) and len(each.pointer) > longest:
            parts, longest = each.parts, len(each.pointer) if is_around else longest
            whose = each.source
        elif is_around and not parts and each.source != "frame":
            whose = each.source
    found = [request.parts[at] for at in parts]
    positions = dict.fromkeys(position for part in found for position in part.positions)
    rule = ", ".join(dict.fromkeys(part.rule for part in found)) or whose
    return MomentDifference(*different, rule, tuple(positions))
