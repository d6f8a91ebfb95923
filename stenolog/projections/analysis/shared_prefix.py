"""The beginning that two requests share, which a provider reads from its cache, and what ended it.

A provider keeps what stands first: tools, system text, then message by message. What comes behind the first
difference is read anew, and paid in full, though most of it may have been sent before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.events import UNCHANGED, AssistantMessage, ModeSwitch, UserMessage
from stenolog.projections.requests import Request, RequestPart
from stenolog.projections.requests.body_digest import SYSTEM, compact
from stenolog.projections.requests.comparison import FRONT, RequestDiff, matches, tokens_of
from stenolog.projections.requests.rules import CUTS, RULES

Kind: TypeAlias = Literal["appended", "left out", "came between", "has another form", "beside the messages"]
TOOLS = ("tools", "toolConfig")
SLICE = 1 << 16


class FirstChange(NamedTuple):
    """The first byte at which two bodies part, in what, and the entry or the setting that did it.

    `byte` counts from 0 in the compact JSON of both; `pointer` leads to the value that it is in. `positions`
    and `rule` are those of the part that stands there, or stood there; `was` is the rule that it stood there
    by, where that is another one. `cause` is the position of the entry that made the difference, 0 where none
    did or where it cannot be told.
    """

    byte: int
    pointer: str
    kind: Kind
    positions: tuple[int, ...]
    rule: str
    was: str
    cause: int


class SharedPrefix(NamedTuple):
    """Share of the earlier of two requests in the later one, in tokens as a budget counts them.

    `shared` is what it begins with, `fresh` the rest; `again` of the rest was in the earlier one too, and is
    read anew because it no longer stands behind the same words. `first` is None for equal bodies.
    """

    shared: int
    fresh: int
    again: int
    first: FirstChange | None


def shared_prefix(
    before: Request, after: Request, told: RequestDiff, between: Iterable[Entry] = ()
) -> SharedPrefix:
    """Return what two requests of one API share, and what ended it.

    `told` is their difference. `between` are the entries of the later one that the earlier one had not.
    """
    is_shared = _beginning(told)
    again = [
        new
        for old, new in matches(before.parts, after.parts)
        if old is not None and new is not None and not is_shared(new) and _same_part(old, new)
    ]
    shared = tokens_of(filter(is_shared, after.parts))
    total = tokens_of(after.parts)
    first = _first_change(before, after, told, list(between))
    return SharedPrefix(shared, total - shared, tokens_of(again), first)


def first_change_words(first: FirstChange) -> str:
    """Say in words what ended a common beginning."""
    does = RULES.get(first.rule, "")
    what = f"{_entries(first.positions)}: " if first.positions else ""
    by = f", by entry {first.cause}" if first.cause and first.cause not in first.positions else ""
    match first.kind:
        case "appended":
            return f"{_entries(first.positions) or first.rule} came behind all that was there"
        case "left out":
            rule = first.rule or "it is no longer there"
            return f"{what}left out, {rule}{by}{f' ({does})' if does else ''}"
        case "came between":
            return f"{what}{first.rule} came between{by}{f' ({does})' if does else ''}"
        case "has another form":
            was = f"{first.was} → " if first.was else ""
            return f"{what}{was}{first.rule} has another form{by}"
        case _:
            return f"{what}{first.rule or 'a field'} beside the messages{by}"


def _entries(positions: tuple[int, ...]) -> str:
    if len(positions) > 3:
        return f"entries {positions[0]} to {positions[-1]}"
    return (
        f"entr{'y' if len(positions) == 1 else 'ies'} {', '.join(map(str, positions))}" if positions else ""
    )


def _beginning(told: RequestDiff) -> Callable[[RequestPart], bool]:
    """Return the test for parts that a cache has: tools, system text, messages up to the first difference."""
    changed = {pointer.split("/")[1] for pointer in told.around}
    if not changed.isdisjoint(("model", *TOOLS)):
        return lambda part: False
    if not changed.isdisjoint(SYSTEM):
        return lambda part: part.message < 0 and part.role == "tools"
    return lambda part: part.message < told.shared.messages


def first_byte(one: bytes, other: bytes) -> int:
    """Return the index of the first byte that differs; the length of the shorter one where none does."""
    end = min(len(one), len(other))
    for begin in range(0, end, SLICE):
        left, right = one[begin : begin + SLICE], other[begin : begin + SLICE]
        if left[: end - begin] != right[: end - begin]:
            return next(begin + i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    return end


def first_pointer(one: Any, other: Any, pointer: str = "") -> str:
    """Return the JSON pointer to the first value that differs, in the order in which they are written.

    The values must differ. A value that only one of them has is pointed to where it stands in that one.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for (key, left), (there, right) in zip(one.items(), other.items(), strict=False):
            if key != there:
                return f"{pointer}/{_escaped(there)}"
            if not _same_bytes(left, right):
                return first_pointer(left, right, f"{pointer}/{_escaped(key)}")
        rest = [*max(one, other, key=len)][min(len(one), len(other)) :]
        return f"{pointer}/{_escaped(rest[0])}" if rest else pointer
    if isinstance(one, list) and isinstance(other, list):
        for index, (left, right) in enumerate(zip(one, other, strict=False)):
            if left is not right and not _same_bytes(left, right):
                return first_pointer(left, right, f"{pointer}/{index}")
        return f"{pointer}/{min(len(one), len(other))}"
    return pointer


def _same_bytes(one: Any, other: Any) -> bool:
    """Return whether both are written in the same bytes; the order of keys counts."""
    return one is other or (one == other and (isinstance(one, str) or compact(one) == compact(other)))


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _first_change(
    before: Request, after: Request, told: RequestDiff, between: Sequence[Entry]
) -> FirstChange | None:
    byte = first_byte(before.bytes, after.bytes)
    if byte == len(before.bytes) == len(after.bytes):
        return None
    pointer = first_pointer(before.body, after.body)
    if pointer.split("/")[1] != after.messages_key:
        return _change_beside_messages(before, after, byte, pointer, between)
    at = told.shared.messages
    olds = [part for part in before.parts if part.message == at]
    news = [part for part in after.parts if part.message == at]
    old, new = next(
        (pair for pair in zip(olds, news, strict=False) if not _same_part(*pair)),
        (olds[0] if olds else None, news[0] if news else None),
    )
    if old is None:
        positions, rule = (new.positions, new.rule) if new else ((), "")
        return FirstChange(byte, pointer, "appended", positions, rule, "", max(positions, default=0))
    if new is not None and (old.rule, old.positions) == (new.rule, new.positions):
        return _other_form(byte, pointer, old, new, between)
    if rule := _dropped_by(after, old):
        cause = _cause_of(rule, old, between)
        return FirstChange(byte, pointer, "left out", old.positions, rule, old.rule, cause)
    if new is None:
        return FirstChange(byte, pointer, "left out", old.positions, "", old.rule, 0)
    if old.positions[:1] == new.positions[:1] and old.positions:
        return _other_form(byte, pointer, old, new, between)
    cause = max((at for at in new.positions if at > before.at), default=0)
    cause = cause or (_last_setting(between) if new.rule in FRONT else 0)
    return FirstChange(byte, pointer, "came between", new.positions, new.rule, "", cause)


def _same_part(old: RequestPart, new: RequestPart) -> bool:
    return old._replace(message=0) == new._replace(message=0)


def _other_form(
    byte: int, pointer: str, old: RequestPart, new: RequestPart, between: Sequence[Entry]
) -> FirstChange:
    """Say what gave a part another form: an entry that it is now made of too, or a setting."""
    came = {*new.positions} - {*old.positions}
    cause = max(came, default=0) or (_last_setting(between) if new.rule in FRONT else 0)
    was = old.rule if old.rule != new.rule else ""
    return FirstChange(byte, pointer, "has another form", new.positions, new.rule, was, cause)


def _change_beside_messages(
    before: Request, after: Request, byte: int, pointer: str, between: Sequence[Entry]
) -> FirstChange:
    """Say what changed beside the messages: tools, system text, the model or a parameter."""
    key = pointer.split("/")[1]
    role = "system" if key in SYSTEM else "tools" if key in TOOLS else ""
    changed = [
        new or old
        for old, new in matches(before.parts, after.parts)
        if role == (new or old or after.parts[0]).role
        and (old is None or new is None or not _same_part(old, new))
    ]
    part = changed[0] if changed else None
    positions, rule = (part.positions, part.rule) if part else ((), "")
    return FirstChange(byte, pointer, "beside the messages", positions, rule, "", _last_setting(between))


def _dropped_by(request: Request, part: RequestPart) -> str:
    """Return the rule by which a part's words were left out; empty where they were not."""
    where = part.positions[0] if part.positions else 0
    if not where or any(where in each.positions for each in request.parts):
        return ""
    return next((run.rule for run in request.omissions if run.first <= where <= run.last), "")


def _cause_of(rule: str, part: RequestPart, between: Sequence[Entry]) -> int:
    """Return the position of the entry by which a part is left out under a rule; 0 where none says so."""
    if rule in CUTS:
        return 0  # the one that outgrew the room: which, only building them all would tell
    where = part.positions[0]
    for entry in reversed(between):
        match entry.event:
            case ModeSwitch(hides=hides, context_from=begin) if rule in ("hidden", "reset"):
                if (rule == "hidden" and hides is not UNCHANGED) or (
                    rule == "reset" and begin is not UNCHANGED
                ):
                    return entry.position
            case AssistantMessage(covers=spans) if rule == "covered" and any(where in span for span in spans):
                return entry.position
            case UserMessage(replaces=old) | AssistantMessage(replaces=old) if rule == "replaced":
                if old == where:
                    return entry.position
            case AssistantMessage() if rule in ("answered-since", "retried", "other-lanes-error"):
                return entry.position
            case _:
                pass
    return 0


def _last_setting(between: Sequence[Entry]) -> int:
    """Return the position of the last change of settings; 0 where there was none."""
    return next((entry.position for entry in reversed(between) if isinstance(entry.event, ModeSwitch)), 0)
