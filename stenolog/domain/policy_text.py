"""Context policies as text, which the command line and team files read.

full            everything                    tokens:16k        a budget in tokens
delta           since the agent's last turn   messages:80       … in messages
last:50         the last 50 messages          characters:120k   … in characters
summary:20      summaries and the last 20     bytes:1m          … in bytes
memory:20       memories and the last 20
delta:20        as delta; a new session is told summaries, memories and the last 20

Joined by `+` (`last:50+tokens:16k`), or the JSON of a card, beginning with `{`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from .base.near_names import closest
from .errors import InvalidPolicyError
from .policy import (
    FullHistory,
    History,
    LastN,
    MemoriesAndRecent,
    Policy,
    SinceLastTurn,
    SinceLastTurnOrRecent,
    SummaryAndRecent,
    policy,
)

LIMITS = ("tokens", "messages", "characters", "bytes")
PLAIN: Mapping[str, type[History]] = {"full": FullHistory, "delta": SinceLastTurn}
COUNTED: Mapping[str, tuple[type[History], str]] = {
    "last": (LastN, "n"),
    "summary": (SummaryAndRecent, "recent"),
    "memory": (MemoriesAndRecent, "recent"),
    "delta": (SinceLastTurnOrRecent, "recent"),
}
FORMS = "full, delta, delta:N, last:N, summary:N, memory:N, tokens:N, messages:N, characters:N, bytes:N"
HINT = f"expected {FORMS}, joined by +, or JSON beginning with {{"
MULTIPLES = {"": 1, "k": 1_000, "m": 1_000_000}


def policy_of(written: str | None, option: str = "--policy") -> Policy | None:
    """Return the policy of an option; None if it is empty: each agent's own, from its card.

    Raises `InvalidPolicyError`, which says what was expected, what was found, and for which option.
    """
    if written is None:
        return None
    text = written.strip()
    try:
        return _from_json(text) if text.startswith("{") else _from_short(text)
    except InvalidPolicyError as error:
        raise InvalidPolicyError(f"{option}: {error}" if option else str(error)) from None


def amount(written: str, what: str) -> int:
    """Return a number such as 500, 16k or 1.5m (k: a thousand). Raises `InvalidPolicyError`, for `what`."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d+)?)([km]?)", written.strip().lower(), re.ASCII)
    number = float(match[1]) * MULTIPLES[match[2]] if match else 0.0
    if number < 1 or not number.is_integer():
        expected = "a whole number from 1 on, such as 500, 16k or 1.5m"
        raise InvalidPolicyError(f"{what}: expected {expected}, found {written!r:.60}{_hint(written)}")
    return int(number)


def _hint(written: str) -> str:
    return "; several rules are joined by +" if re.search(r"[,;|&\s]", written.strip()) else ""


def in_short(chosen: Policy) -> str:
    """Return the policy in this short form if it has one, else as JSON."""
    return _in_short(chosen) or json.dumps(chosen.json, ensure_ascii=False, separators=(",", ":"))


def titled(chosen: Policy) -> str:
    """Return the policy in a few words for a table: the short form, and the names of the rest."""
    rest = [slot for slot in _other_rules(chosen) if slot != "budget"]
    return _in_short(chosen) or "+".join([*_pieces(chosen), *rest])


def _in_short(chosen: Policy) -> str:
    """Return the short form; "" if none says everything."""
    short = "+".join(_pieces(chosen))
    try:
        again = _from_short(short)
    except InvalidPolicyError:  # a history of an application's own
        return ""
    return short if again.history == chosen.history and _other_rules(again) == _other_rules(chosen) else ""


def _other_rules(chosen: Policy) -> dict[str, object]:
    return {slot: rule for slot, rule in chosen.json.items() if slot != "history"}


def _from_json(text: str) -> Policy:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidPolicyError(f"the policy begins with {{ and is no JSON: {error}") from None
    return policy(given)


def _from_short(text: str) -> Policy:
    history: History | None = None
    limits: dict[str, int] = {}
    for piece in text.split("+"):
        name, colon, number = piece.strip().partition(":")
        if name in LIMITS and colon:
            _once(name in limits, piece, text)
            limits[name] = amount(number, name)
        else:
            chosen = _history(name, number, bool(colon), text)
            _once(history is not None, piece, text)
            history = chosen
    return policy(history) | (policy({"budget": limits}) if limits else None)


def _history(name: str, number: str, counted: bool, text: str) -> History:
    if name in PLAIN and not counted:
        return PLAIN[name]()
    if name in COUNTED and (counted or name != "last"):
        kind, field = COUNTED[name]
        return kind(**({field: amount(number, name)} if counted else {}))
    meant = closest(name, [*PLAIN, *COUNTED, *LIMITS], begins=False)
    slip = f"; did you mean {meant!r}?" if meant and meant != name else ""
    raise InvalidPolicyError(f"policy {text!r}: {HINT}{slip}")


def _once(again: bool, piece: str, text: str) -> None:
    if again:
        raise InvalidPolicyError(f"policy {text!r}: {piece.strip()!r} says again what was said before it")


def _pieces(chosen: Policy) -> Iterable[str]:
    history, budget = chosen.history, chosen.budget
    fields = dict(COUNTED.values())
    number = f":{_written(getattr(history, fields[type(history)]))}" if type(history) in fields else ""
    name = next((name for name, (kind, _) in COUNTED.items() if kind is type(history)), history.kind)
    limits = [(name, getattr(budget, name)) for name in LIMITS if getattr(budget, name, None)]
    if number or not isinstance(history, FullHistory) or not limits:
        yield f"{name}{number}"
    yield from (f"{name}:{_written(size)}" for name, size in limits)


def _written(number: int) -> str:
    for letter, times in (("m", 1_000_000), ("k", 1_000)):
        if number % times == 0:
            return f"{number // times}{letter}"
    return str(number)
