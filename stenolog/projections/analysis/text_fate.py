"""The last request that held a text, and the entry that removed it; every request is searched."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.entry import Entry
from stenolog.domain.policy import PolicyLike
from stenolog.projections import requests
from stenolog.projections.formats.readable import texts
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import COUNTERS
from stenolog.projections.messages.sizes import Counter as TokenCounter
from stenolog.projections.requests.as_sent import FOLLOWED, SentForms
from stenolog.projections.requests.part_texts import messages

Verdict: TypeAlias = Literal["still in", "gone", "never in"]
REPLACED = "replaced"
"""The rule's name if nothing of the sources is left, and no run has the reason: a setting was changed."""


class TextFate(NamedTuple):
    """Fate of a text in a lane's requests.

    `runs` are the positions it was in, as first and last; `last` is the last of them (0: never in), and
    `vanished` the position of the entry that made it vanish (0: it is still in). `source` are the positions
    that it was from, `rule` the one that removed them, with `dropped`, the run they went in.
    """

    text: str
    verdict: Verdict
    runs: tuple[tuple[int, int], ...] = ()
    last: int = 0
    vanished: int = 0
    source: tuple[int, ...] = ()
    rule: str = ""
    dropped: tuple[int, int] = (0, 0)


def text_fate(
    entries: Iterable[Entry],
    agent: str,
    text: str,
    *,
    task: str = "",
    api: str | None = None,
    policy: PolicyLike = None,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
    counters: Mapping[str, TokenCounter] = COUNTERS,
) -> TextFate:
    """Return the last position with a text in the lane's request, and the entry that made it vanish.

    It searches what the model reads: messages, arguments, system text and tools, not roles or ids. Every
    request is searched, previews too, for a text may come and go. Raises as `build`.
    """
    log, needles, lane = list(entries), _needles(text), requests.LaneId(agent, task)
    runs: list[list[int]] = []
    shown: requests.Request | None = None
    edge: tuple[requests.Request, requests.Request] | None = None
    given: dict[str, Any] = {
        "task": task,
        "api": requests.asked_api(api, log, lane),
        "policy": policy,
        "blobs": blobs,
    }
    requests.check_takes_part(log, agent)
    requests.build(log, agent, **given, counters=counters)  # raises for what it cannot be built of
    forms = SentForms(log, lane, blobs)
    for request in map(forms.form, requests.every_request(log, agent, **given, counters=counters)):
        inside = _holds(request.body, needles)
        if inside:
            shown = request
        elif shown is not None and (request.body.get(FOLLOWED) or request.policy.history.delta):
            source = sources(shown, text)
            inside = any(run.first <= each <= run.last for run in request.held_runs for each in source)
        if inside and edge is None and runs:
            runs[-1][1] = request.at
        elif inside:
            runs.append([request.at, request.at])
            edge = None
        elif shown is not None and edge is None:
            edge = shown, request
    return _verdict(text, [(first, last) for first, last in runs], edge)


def _verdict(
    text: str, runs: Sequence[tuple[int, int]], edge: tuple[requests.Request, requests.Request] | None
) -> TextFate:
    if not runs:
        return TextFate(text, "never in")
    if edge is None:
        return TextFate(text, "still in", tuple(runs), runs[-1][1])
    before, after = edge
    source = sources(before, text)
    rule, dropped = _taken_by(source, after)
    return TextFate(text, "gone", tuple(runs), runs[-1][1], after.at, source, rule, dropped)


def sources(request: requests.Request, text: str) -> tuple[int, ...]:
    """Return the positions of messages with the text, else the front's."""
    needles = _needles(text)
    holding = {at for at, message in enumerate(messages(request)) if _holds(message, needles)} or {-1}
    found = {position for part in request.parts if part.message in holding for position in part.positions}
    return tuple(sorted(found))


def _taken_by(source: Sequence[int], after: requests.Request) -> tuple[str, tuple[int, int]]:
    by_position = {position: part for part in after.parts for position in part.positions}
    for position in sorted(set(source) - by_position.keys(), reverse=True):
        for run in after.omissions:
            if run.first <= position <= run.last:
                return run.rule, (run.first, run.last)
    reworded = (by_position[position].rule for position in source if position in by_position)
    return next(reworded, REPLACED), (0, 0)


def holds(request: requests.Request, text: str) -> bool:
    """Return whether the model reads a text in a request: in messages, arguments, system text or tools."""
    return _holds(request.body, _needles(text))


def _holds(value: Any, needles: Sequence[str]) -> bool:
    return any(needle in text for text in texts(value) for needle in needles)


def _needles(text: str) -> tuple[str, ...]:
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    return (text,) if escaped == text else (text, escaped)
