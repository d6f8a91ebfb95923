"""The form of another program, given to a request under a change."""

from __future__ import annotations

from stenolog.projections.formats import validator_of
from stenolog.projections.messages.message import Body
from stenolog.projections.requests import Request


def in_sent_form(now: Request, then: Request, sent: Request) -> Request:
    """Return a changed request in the form in which the unchanged one, `then`, was sent.

    Keys that the change leaves as they were are those that were sent. It stays as built if it goes over
    another API, or if its provider would refuse it in that form.
    """
    if sent is then or now.api != then.api:
        return now
    body: Body = {}
    for key in dict.fromkeys((*sent.body, *now.body)):
        if key in now.body and now.body[key] != then.body.get(key):
            body[key] = now.body[key]
        elif key in sent.body and (key in now.body or key not in then.body):
            body[key] = sent.body[key]
    formed = now.with_body(body, None)
    broken = validator_of(now.api).violations
    return formed if len(broken(body)) <= len(broken(sent.body)) else now
