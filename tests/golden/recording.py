"""Facts about a log, as JSON: digests, lanes and requests at every position of every conversation."""

from __future__ import annotations

from typing import Any

from stenolog import Entry, Log, State, evolve
from stenolog.domain.lanes.step import INITIAL
from stenolog.projections.requests import PIPELINE
from stenolog.requests import FORMATS, every_request, lanes

DIGITS = 16
"""Hexadecimal digits of each digest that are recorded."""


def facts(log: Log) -> dict[str, Any]:
    """Return the facts about a log, and the versions that requests were made by."""
    return {
        "pipeline": PIPELINE,
        "apis": {name: api.version for name, api in FORMATS.items()},
        "conversations": {name: _of_conversation(log, name) for name in log.names(archived=True)},
    }


def _of_conversation(log: Log, name: str) -> dict[str, Any]:
    entries = list(log[name].entries())
    state, states = INITIAL, []
    for entry in entries:
        state = evolve(state, entry)
        states.append(_lanes(state))
    changed = [at for at, found in enumerate(states) if at == 0 or found != states[at - 1]]
    return {
        "head": entries[-1].digest,
        "digests": [entry.digest[:DIGITS] for entry in entries],
        "states": {str(at + 1): states[at] for at in changed},
        "requests": {
            lane.address: {api: _requests(log, entries, lane, api) for api in FORMATS}
            for lane in lanes(entries)
        },
    }


def _lanes(state: State) -> dict[str, Any]:
    """Return what decides what each lane does next."""
    return {
        lane.address: [
            lane.status,
            lane.asked,
            lane.answered,
            lane.attempt,
            [[call.entry, call.nth, call.approval, call.approved] for call in lane.calls],
        ]
        for lane in state.lanes.values()
    }


def _requests(log: Log, entries: list[Entry], lane: Any, api: str) -> dict[str, str]:
    """Return the digest of the lane's request by position, where it differs from the one before."""
    found: dict[str, str] = {}
    last = ""
    for request in every_request(entries, lane.agent, task=lane.task, api=api, blobs=log.blobs):
        made = f"{request.sha256[:DIGITS]}{'' if request.sendable else ' not sendable'}"
        if made != last:
            found[str(request.at)] = last = made
    return found
