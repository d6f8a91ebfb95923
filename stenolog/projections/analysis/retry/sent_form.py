"""The form of another program, given to a request under a change."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from stenolog.projections.formats import validator_of
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.messages.message import Body
from stenolog.projections.requests import Request


def in_sent_form(now: Request, then: Request, sent: Request) -> Request:
    """Return a changed request in the form in which the unchanged one, `then`, was sent.

    Keys and messages that the change leaves as they were are those that were sent. It stays as built if it
    goes over another API, or if its provider would refuse it in that form.
    """
    if sent is then or now.api != then.api:
        return now
    body: Body = {}
    for key in dict.fromkeys((*sent.body, *now.body)):
        if key in now.body and now.body[key] != then.body.get(key):
            body[key] = now.body[key]
            if key == now.messages_key:
                body[key] = list(_messages(now.body[key], then.body.get(key), sent.body.get(key)))
        elif key in sent.body and (key in now.body or key not in then.body):
            body[key] = sent.body[key]
    broken = validator_of(now.api).violations
    return now.with_body(body, None) if len(broken(body)) <= len(broken(sent.body)) else now


def _messages(now: list[Any], then: Any, sent: Any) -> Iterator[Any]:
    """Yield the messages; those that were there before as they were sent, if each can be told from others."""
    if not (isinstance(then, list) and isinstance(sent, list) and len(then) == len(sent)):
        yield from now
        return
    old, new = ([compact(message) for message in messages] for messages in (then, now))
    for tag, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield from sent[first:last] if tag == "equal" else now[begin:end]
