"""Stage 7, fitted: a policy's caps, the units that a cap leaves, and messages that always stay.

A cut goes far enough to stay for a while.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.policy import Budget, Policy
from stenolog.projections.messages.rules import NO_ROOM
from stenolog.projections.messages.sizes import PLAIN, Rate, Size, total

from .must_stay import NOT_COUNTED, OF_EACH, latest, must_keep, positions_of
from .prompt import Unit, reserved_size, stubs, tools_called
from .view import NEWEST, Contents, View

POSITION = attrgetter("position")
ENDLESS = 2**63 - 1
# With a fixed part alone, a card with many tools was unsendable long before there was anything to cut.
RESERVE = 32
"""A budget keeps at least one part in so many free for the texts around the conversation."""
NOTHING = Size()
# Between two cuts, what is sent begins with all of what was sent before, which a prompt cache pays for. On
# 100 turns with tools under 16,000 tokens, 92.5 % of the bytes sent began as the request before. With a half
# it was 91.4 %.
KEPT = 3
"""One part in so many of the room is kept by a cut."""


# Until they leave, a rewind of the summary can bring them back (see decision 7).
SPARE = 64
"""Entries more than are shown that a view may hold, before those that summaries cover leave it."""


class Cap(NamedTuple):
    """The window's room, and what a cut leaves; `rule` names its cuts.

    `recent`: what stays beside the last messages does not count.
    """

    rule: str
    room: Size
    target: Size
    recent: bool = False


def caps(policy: Policy, around: Size = NOTHING, rate: Rate = PLAIN) -> tuple[Cap, ...]:
    """Return every cap of a policy. `around` is the maximum size around the conversation.

    Tokens are estimated ones; the budget's are billed at a `rate`.
    """
    found = []
    n, step = policy.history.window
    if n is not None:
        # With a step of 1, exactly the last n stay.
        target = _messages(max(n + 1 - step, 1))
        found.append(Cap("beyond-last", _messages(n), target, recent=bool(policy.history.keeps)))
    if policy.budget is not None:
        found.append(_of_budget(policy.budget, around, rate))
    return tuple(found)


def _of_budget(budget: Budget, around: Size, rate: Rate) -> Cap:
    room, target = [], []
    for name, limit, needed in zip(Size._fields, limits(budget, rate), around, strict=True):
        left = limit if limit == ENDLESS else max(limit - _reserve(budget, name, limit, needed, rate), 0)
        room.append(left)
        target.append(limit if limit == ENDLESS else _target(left, budget.cut_to))
    return Cap("over-budget", Size(*room), Size(*target))


def _target(room: int, cut_to: int | None) -> int:
    return room // KEPT if cut_to is None else room * cut_to // 100


def limits(budget: Budget, rate: Rate = PLAIN) -> Size:
    """Return the budget's limits, infinite if unset; tokens as estimated, if they are billed at a rate."""
    tokens = None if budget.tokens is None else rate.estimate(budget.tokens)
    given = (budget.messages, budget.characters, tokens, budget.bytes)
    return Size(*(ENDLESS if limit is None else limit for limit in given))


def _reserve(budget: Budget, name: str, limit: int, needed: int, rate: Rate) -> int:
    """Return the reserve: the size of the text around the conversation, or more (see `RESERVE`)."""
    if name == "messages":
        return needed
    if name == "tokens" and budget.reserve is not None:
        return max(rate.estimate(budget.reserve), needed)
    return max(limit // RESERVE, needed)


def _messages(n: int) -> Size:
    return Size(n, ENDLESS, ENDLESS, ENDLESS)


def fit(view: View, contents: Callable[[], Contents]) -> list[tuple[Cap, Size]]:
    """Drop the oldest units if the view has outgrown a cap.

    Return the caps, each with the size of what counts against it.
    """
    shown = contents()
    must_stay = must_keep(view, shown)
    sizes, now = unit_sizes(view, shown, must_stay), caps_now(view, shown)
    for cap in now:
        if not view.counts(cap.rule):
            continue
        kept = fitting_units(sizes, cap, must_stay) - outstaying(view, shown, must_stay)
        if len(kept) < len(shown.units):
            kept -= _held_by_half(shown, kept, sizes, cap, must_stay) if view.version > 5 else set()
            recent = fitting_units(sizes, cap, {}) if view.version > 5 else set()
            counted = (i for i in kept if not is_free(i, cap, must_stay))
            oldest = min((min(positions_of(shown.units[i])) for i in counted), default=view.position)
            view.cut(positions_to_cut(view, shown, kept, recent, cap.rule), cap.rule, oldest)
            shown = contents()
            must_stay = must_keep(view, shown)
            sizes = unit_sizes(view, shown, must_stay)
    view.holes = _holes(view, shown, must_stay)
    return [(cap, total(counted_sizes(sizes, cap, must_stay))) for cap in now]


def _held_by_half(
    shown: Contents, kept: Set[int], sizes: Sequence[Size], cap: Cap, must_stay: Mapping[int, str]
) -> set[int]:
    """Return the units to cut as well, because an entry is cut as a whole, if its other unit has no room.

    A text that was cut off and the note after it are two units of one entry.
    """
    inside = [positions_of(unit) for unit in shown.units]
    stay = set().union(*(inside[i] for i in kept))
    staying = [i for i in range(len(sizes)) if inside[i] & stay and not is_free(i, cap, must_stay)]
    if total(sizes[i] for i in staying).fits(cap.room):
        return set()
    lost = set().union(*(inside[i] for i in range(len(sizes)) if i not in kept))
    return {i for i in kept if i not in must_stay and inside[i] & lost}


def _holes(view: View, shown: Contents, must_stay: Mapping[int, str]) -> frozenset[str]:
    """Return the reasons for which something older stays beside what had no room."""
    hole = _hole(view)
    if not hole:
        return frozenset()
    firsts = {i: min(positions_of(shown.units[i]), default=hole) for i in must_stay}
    kept_by = frozenset(reason for i, reason in must_stay.items() if firsts[i] < hole)
    # What the last cut left without a reason goes at the next entry, whatever that is.
    return NEWEST if outstaying(view, shown, must_stay) else kept_by


def oldest_to_cut(view: View, cap: Cap, shown: Contents) -> int | None:
    """Return how many of the oldest units a cap on messages alone cuts; None if `fit` must tell.

    That is so if one of them must stay, or if something older stayed before. All is shown where it arrived.
    """
    if view.holes or cap.recent or not view.counts(cap.rule) or _hole(view):
        return None
    left = sum(map(len, shown.units))
    if left <= cap.room.messages:
        return 0
    number = 0
    while number < len(shown.units) and left > cap.target.messages:
        left -= len(shown.units[number])
        number += 1
    first = shown.units[:number]
    last = max(chain.from_iterable(map(positions_of, first)), default=0)
    oldest = shown.entries[: bisect_right(shown.entries, last, key=POSITION)]
    stays = next(latest(view, shown), ENDLESS) <= last
    return None if stays or must_keep(view, Contents(first, {}, oldest, {}), OF_EACH) else number


def surely_within(view: View, cap: Cap, size: Size) -> bool:
    """Return whether a view of this size is within a cap, and `fit` would leave all of it."""
    is_known = not (view.holes or view.measure.missing or 0 in cap.room or _hole(view))
    return is_known and size.fits(cap.room)


def outstaying(view: View, shown: Contents, must_stay: Mapping[int, str]) -> set[int]:
    """Return the units that need not stay any more, and are older than what was cut beside them."""
    hole = _hole(view)
    if not hole:
        return set()
    older = (i for i, unit in enumerate(shown.units) if max(positions_of(unit), default=hole) < hole)
    return {i for i in older if i not in must_stay}


def _hole(view: View) -> int:
    return max((run.last for run in view.left_out if run.rule == NO_ROOM), default=0)


def tidy(view: View, shown: Contents) -> bool:
    """Drop the entries covered by summaries once they outnumber the shown ones; return whether."""
    if len(view.entries) <= 2 * len(shown.entries) + SPARE:
        return False
    view.drop({position: rule for position, rule in shown.left_out.items() if rule == "covered"})
    return True


def since_last_turn(
    view: View, units: list[Unit], entries: Iterable[Entry]
) -> tuple[list[Unit], frozenset[int]]:
    """Return the units that the backend lacks under `SinceLastTurn`, and the positions that it has.

    An answer stays with results that the backend lacks. `entries` are those of the units, shown or not.
    """
    if not view.continues_session:
        return units, frozenset()
    answered, seen = view.memory.answered, view.state.lane(view.lane.address).seen
    fresh, had = [], set[int]()
    delivered = {
        record.summary.position
        for record in view.summaries
        if view.policy.history.window[0] and all(span.last <= seen for span in record.summary.spans)
    }
    # Where the words of others are shown as its own, the backend has not said them.
    others = {e.position for e in entries if view.voice.shared and not view.lane.wrote(e.event)}
    for unit in units:
        if positions_of(unit) <= delivered:
            had |= positions_of(unit)
            continue
        # The backend has its own words, and what they were built on.
        said_itself = unit[0].role == "assistant" and others.isdisjoint(unit[0].positions)
        if all(p <= seen or (said_itself and p <= answered) for p in positions_of(unit)):
            had |= positions_of(unit)
        else:
            fresh.append(unit)
    return fresh, frozenset(had)


def caps_now(view: View, shown: Contents) -> tuple[Cap, ...]:
    """Return a view's caps under the current card, settings and rate."""
    return caps(view.policy, reserved_size(view, shown) if view.policy.budget else NOTHING, view.rate)


def unit_sizes(view: View, shown: Contents, must_stay: Collection[int] = ()) -> list[Size]:
    """Return each unit's maximum size on any API, with the stubs of its tools."""
    of = view.measure.of
    sizes = [total([message.size or of(message) for message in unit]) for unit in shown.units]
    counted = set[str]()
    for i in range(len(sizes) - 1, -1, -1) if view.version > 5 else ():
        if not shown.units[i][0].calls:
            continue
        # By the last unit that needs it, for that is cut last; one that must stay may outlast it.
        called = tools_called(shown.units[i])
        if i in must_stay or not called.keys() <= counted:
            brought = stubs(view, [name for name in called if name not in counted or i in must_stay])
            sizes[i] = total([sizes[i], *map(view.measure.stub, brought)])
            counted.update(called)
    return sizes


def positions_to_cut(
    view: View, shown: Contents, kept: Set[int], recent: Set[int], rule: str
) -> dict[int, str]:
    """Return dropped units' positions, and those of all earlier entries out of context.

    Each has the cap's rule; a unit dropped only because others had to stay has another.
    """
    inside = [positions_of(unit) for unit in shown.units]
    stay = set().union(*(inside[i] for i in kept))
    gone = set().union(*inside) - stay
    # Entries out of context before the cut go as well, since nothing can bring them back behind it.
    edge = max(gone, default=0)
    gone = (gone | {entry.position for entry in view.entries if entry.position < edge}) - stay
    no_room = set().union(*(inside[i] for i in recent - kept))
    return {position: NO_ROOM if position in no_room else rule for position in gone}


def fitting_units(sizes: Sequence[Size], cap: Cap, must_stay: Mapping[int, str]) -> set[int]:
    """Return the units within a cap: all if they fit, else those that must stay and the last others."""
    if total(counted_sizes(sizes, cap, must_stay)).fits(cap.room):
        return {*range(len(sizes))}
    free = [i for i in range(len(sizes)) if i not in must_stay]
    fixed = total(counted_sizes([sizes[i] for i in must_stay], cap, dict(enumerate(must_stay.values()))))
    left, kept = cap.target.minus(fixed), set(must_stay)
    for i in reversed(free):
        # The first that does not fit ends it: what stays is one stretch, without holes.
        if not sizes[i].fits(left):
            break
        kept.add(i)
        left = left.minus(sizes[i])
    return kept


def counted_sizes(sizes: Sequence[Size], cap: Cap, must_stay: Mapping[int, str]) -> Sequence[Size]:
    """Return the sizes against a cap."""
    if not cap.recent:
        return sizes
    return [size for i, size in enumerate(sizes) if not is_free(i, cap, must_stay)]


def is_free(unit: int, cap: Cap, must_stay: Mapping[int, str]) -> bool:
    """Return whether a unit does not count against a cap, as facts against the last messages."""
    return cap.recent and must_stay.get(unit, "") in NOT_COUNTED
