"""The form of another program, given to a request under a change."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from stenolog.projections.formats import validator_of
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.json_fields import same_from_start
from stenolog.projections.requests import Request

TELLING = ("role", "type", "name")
"""The keys whose values two messages, blocks or tools must share to be one that was changed."""


def in_sent_form(now: Request, then: Request, sent: Request) -> Request:
    """Return a changed request in the form in which the unchanged one, `then`, was sent.

    Values that the change leaves as they were are those that were sent. It stays as built if it goes over
    another API, or if its provider would refuse it in that form.
    """
    if sent is then or now.api != then.api:
        return now
    body = _object(now.body, then.body, sent.body)
    broken = validator_of(now.api).violations
    return now.with_body(body, None) if len(broken(body)) <= len(broken(sent.body)) else now


def _value(now: Any, then: Any, sent: Any) -> Any:
    if now == then:
        return sent
    match now, then, sent:
        case dict(), dict(), dict() if all(now.get(key) == then.get(key) for key in TELLING):
            return _object(now, then, sent)
        # Else nothing says which item was sent as which.
        case list(), list(), list() if len(then) == len(sent):
            return list(_items(now, then, sent))
        case str(), str(), dict() | list() if compact(sent).count(compact(then)) == 1:
            return _with_text(sent, then, now)
        case _:
            return now


def _object(now: dict[str, Any], then: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    made = {}
    for key in dict.fromkeys((*sent, *now)):
        if key not in now:
            if key not in then:
                made[key] = sent[key]
        elif key in then and key in sent:
            made[key] = _value(now[key], then[key], sent[key])
        elif key not in then or now[key] != then[key]:  # else the program has another key for it
            made[key] = now[key]
    return made


def _items(now: list[Any], then: list[Any], sent: list[Any]) -> Iterator[Any]:
    # Most of a long conversation is the same, so only its middle is written to be compared.
    begin = same_from_start(now, then)
    end = same_from_start(now[begin:][::-1], then[begin:][::-1])
    inner, old, formed = (items[begin : len(items) - end] for items in (now, then, sent))
    yield from sent[:begin]
    before, after = ([compact(item) for item in items] for items in (old, inner))
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for tag, first, last, start, stop in steps:
        if tag == "equal":
            yield from formed[first:last]
        elif last - first == stop - start:
            yield from map(_value, inner[start:stop], old[first:last], formed[first:last])
        else:
            yield from inner[start:stop]
    yield from sent[len(sent) - end :]


def _with_text(value: Any, old: str, new: str) -> Any:
    match value:
        case dict():
            return {key: _with_text(each, old, new) for key, each in value.items()}
        case list():
            return [_with_text(each, old, new) for each in value]
        case _:
            return new if value == old else value
