"""Every moment of a log, exported as a test and run here: as it is, and with one word of the log changed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from stenolog import AssistantMessage, Entry, LlmError
from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.projections.moments.moment import Moment, choices, moment_of, receipt_of
from stenolog.projections.requests import LaneId, Request, lanes
from stenolog.projections.requests.incremental.series import windows
from stenolog.projections.requests.incremental.session import RequestSession
from stenolog.projections.requests.part_texts import messages
from stenolog.projections.requests.sendable import takes_part

WORD = re.compile(r"\b[a-z]{4,}\b")


class Called(NamedTuple):
    """A position at which an agent's model was called, and the request there."""

    lane: LaneId
    at: int
    request: Request


def calls(log: list[Entry], api: str, blobs: Mapping[str, bytes], every: int = 1) -> Iterator[Called]:
    """Yield the request of each call of a log, or of every so manieth and the last one of each agent."""
    for lane in lanes(log):
        wanted = [_asked_at(log, entry, lane) for entry in log if _is_call(entry, lane)]
        wanted = [at for nth, at in enumerate(wanted, 1) if nth % every == 0 or nth in (1, len(wanted))]
        session: RequestSession | None = None
        for window in windows(log, lane, None, COUNTERS, blobs):
            if window.position in wanted and window.state.blocked is None and takes_part(window):
                if session is None or session.window is not window:
                    session = RequestSession(window, api, blobs)
                yield Called(lane, window.position, session.request())


def _is_call(entry: Entry, lane: LaneId) -> bool:
    event = entry.event
    return isinstance(event, AssistantMessage | LlmError) and event.in_context and lane.owns(event)


def _asked_at(log: list[Entry], entry: Entry, lane: LaneId) -> int:
    receipt = getattr(entry.event, "receipt", None)
    return receipt.view if receipt is not None else entry.position - 1


def exported(log: list[Entry], called: Called, blobs: Mapping[str, bytes]) -> Moment:
    """Return the moment of a call."""
    before = log[: called.at]
    return moment_of(
        called.request,
        choices(called.request, before, lambda: before),
        conversation=log[0].conversation,
        receipt=receipt_of(log[called.at :], called.lane, called.at),
        blobs=blobs,
        counters=COUNTERS,
    )


def ran(text: str) -> str:
    """Run the test in the text of a file; return what it found to differ, "" where it passed."""
    names = names_in(text)
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    try:
        test()
    except AssertionError as error:
        return str(error)
    return ""


def names_in(text: str) -> dict[str, Any]:
    """Return what the text of a file defines."""
    names: dict[str, Any] = {}
    exec(compile(text, "test_moment.py", "exec"), names)
    return names


def with_a_word_changed(moment: Moment, text: str, random: Random) -> tuple[str, int] | None:
    """Return the file with one word of an entry changed that the request shows, and the entry's position.

    None where the request shows no word of an entry that it has but once.
    """
    told = list(_words(moment))
    if not told:
        return None
    position, word = random.choice(told)
    line = next(line for line in text.split("\n") if line.startswith(f'{{"position": {position}, '))
    entry = json.loads(line)
    for part in entry["event"]["parts"]:
        if part["type"] == "text":
            part["text"] = re.sub(rf"\b{word}\b", f"{word}x", part["text"])
    return text.replace(line, json.dumps(entry), 1), position


def _words(moment: Moment) -> Iterator[tuple[int, str]]:
    """Yield a word of each entry that stands once in it and in the message that it is in."""
    events = {entry.position: entry.event for entry in moment.entries}
    shown = messages(moment.request)
    for part in moment.request.parts:
        if part.message >= 0 and len(part.positions) == 1 and part.disposition != "added":
            said = getattr(events[part.positions[0]], "text", "")
            there = set(WORD.findall(json.dumps(shown[part.message], ensure_ascii=False)))
            once = [word for word, count in Counter(WORD.findall(said)).items() if count == 1]
            yield from [(part.positions[0], word) for word in once if word in there][:1]
