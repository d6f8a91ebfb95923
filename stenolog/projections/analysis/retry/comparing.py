"""Structural differences of recorded calls under a change: found offline, from the log only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.projections.json_checks import NOTHING, JsonDifference, first_difference
from stenolog.projections.messages.body_digest import by_hash, escape
from stenolog.projections.messages.json_fields import same_from_start
from stenolog.projections.messages.message import Body
from stenolog.projections.requests import Request
from stenolog.projections.requests.pipeline.omissions import runs

from .cases import Case
from .changes import HERE, NO_CHANGE, Change, Here, Retried, retried, under
from .decisions import Team, decided_otherwise

What: TypeAlias = Literal["same", "changed", "refused", "unbuilt", "new", "vanished"]
Run: TypeAlias = tuple[int, int]


class Tried(NamedTuple):
    """A recorded call, tried under a change.

    A "changed" request differs first at `pointer`, a JSON pointer into the body; "" if it is the decision to
    call, or what is compared is a file of digests. `expected` and `found` are the values there. A "refused"
    one would not be sent, an "unbuilt" one cannot be built: `found` says why. `tokens` are those of the
    request then and now; `gone` and `added` the runs of entries that only one of them shows.
    """

    case: Case
    what: What
    pointer: str = ""
    expected: str = ""
    found: str = ""
    tokens: tuple[int, int] = (0, 0)
    gone: tuple[Run, ...] = ()
    added: tuple[Run, ...] = ()


def tried(
    entries: Iterable[Entry],
    cases: Sequence[Case],
    change: Change = NO_CHANGE,
    means: Here = HERE,
    team: Team | None = None,
) -> list[Tried]:
    """Return what becomes of calls of one conversation; without a change, only of those with a receipt.

    Raises `NotRegisteredError` for an unknown API or rule of turns.
    """
    log = list(entries)
    other = decided_otherwise(log, list(under(log, change)), cases, team)
    asked = cases if not change.is_none else [case for case in cases if case.receipt is not None]
    found = (_tried(one, other.get(one.case.position), change) for one in retried(asked, log, change, means))
    return sorted(found, key=lambda one: one.case.position)


def _tried(one: Retried, otherwise: JsonDifference | None, change: Change) -> Tried:
    case, then, now = one.case, one.then, one.now
    if otherwise is not None:
        return Tried(case, "changed", *otherwise)
    if now is None:
        return Tried(case, "unbuilt", found=one.why)
    before = one.plain or now
    if not now.ready and (before.ready or before is now):
        return Tried(case, "refused", found=now.reason)
    known = {each for each in (case.receipt and case.receipt.sha256, then and then.sha256) if each}
    if change.is_none and case.receipt is not None:
        known = {case.receipt.sha256}
    counts = (0, 0) if change.is_none else (before.tokens, now.tokens)
    if now.sha256 in known:
        return Tried(case, "same", tokens=counts)
    shown = [frozenset(at for part in each.parts for at in part.positions) for each in (before, now)]
    left = (shown[0] - shown[1], shown[1] - shown[0])
    return Tried(
        case, "changed", *_unlike(then, now, case), counts, *(tuple(runs(sorted(each))) for each in left)
    )


def _unlike(then: Request | None, now: Request, case: Case) -> JsonDifference:
    found = then and _first_difference(then.body, now.body)
    if not found:  # it cannot be built as it was: `check log --requests` says why
        return JsonDifference("/", case.receipt.sha256 if case.receipt else "", now.sha256)
    return found


def _first_difference(then: Body, now: Body) -> JsonDifference | None:
    """Return where two bodies differ first; what they begin with is compared as it is, since it is long."""
    for key in dict.fromkeys((*then, *now)):
        pointer, old, new = f"/{escape(key)}", then.get(key, NOTHING), now.get(key, NOTHING)
        if isinstance(old, list) and isinstance(new, list) and old != new:
            same = same_from_start(old, new)
            pointer = f"{pointer}/{same}"
            old, new = (each[same] if same < len(each) else NOTHING for each in (old, new))
        if old != new and (found := first_difference(by_hash(old), by_hash(new), pointer)):
            return found
    return None
