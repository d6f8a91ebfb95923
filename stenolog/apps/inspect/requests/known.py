"""Requests that were shown last, kept with what was made of them: their parts, sizes and bytes."""

from __future__ import annotations

import json
from collections import OrderedDict
from threading import Lock
from weakref import WeakKeyDictionary

from stenolog.adapters.conversation.log import Log
from stenolog.apps.views.requests import AskedRequest
from stenolog.projections.requests import Request

MOST = 16
"""The requests that are kept of a log; a large one takes some megabytes."""

_requests: WeakKeyDictionary[Log, OrderedDict[tuple[object, ...], Request]] = WeakKeyDictionary()
_turn = Lock()


def known_request(asked: AskedRequest) -> Request:
    """Return a request as it was asked for; one that was shown lately is not made anew."""
    if asked.is_rewritten:
        return asked.request()
    talk = asked.conversation
    [last] = talk.entries(asked.at - 1, asked.at)
    policy = asked.policy and json.dumps(asked.policy.json, sort_keys=True)
    key = (talk.key, last.digest, asked.agent, asked.at, asked.api, policy)
    with _turn:
        kept = _requests.setdefault(talk.log, OrderedDict())
        found = kept.get(key)
        if found is not None:
            kept.move_to_end(key)
    if found is None:
        found = asked.request()
        with _turn:
            kept[key] = found
            if len(kept) > MOST:
                kept.popitem(last=False)
    return found
