"""Requests that are made of what changed are the requests that are made of the whole log."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

from stenolog import AssistantMessage, Entry, Event, Request, ToolCall, ToolResult, UserMessage
from stenolog.domain.errors import UnsupportedVersionError
from stenolog.domain.policy import Policy, policy
from stenolog.events import Receipt
from stenolog.projections.formats import FORMATS
from stenolog.projections.formats.base import Format
from stenolog.projections.formats.body_builder import texts
from stenolog.projections.formats.writer import Writer
from stenolog.projections.messages.message import Body, Message
from stenolog.projections.requests import LaneId, build, lanes
from stenolog.projections.requests.incremental.frozen import LONG
from stenolog.projections.requests.incremental.series import every_request, from_window, windows
from stenolog.projections.requests.incremental.session import RequestSession
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.sendable import takes_part
from stenolog.testing import entries
from tests.random_cases import seeds
from tests.requests.histories import BLOBS, history
from tests.requests.policies import SMALL
from tests.requests.sessions import session_log

FULL = policy(None)


def written_at_once(request: Request, api: str) -> object:
    """Return the body, written in one go, of the pieces that the request is made of."""
    inputs = request.explain._explain.inputs  # type: ignore[attr-defined]
    return FORMATS[api].rendered(inputs.messages, inputs.around.preamble, BLOBS).body


def check(
    log: Sequence[Entry], lane: LaneId, policy: Policy | None, looks: Callable[[int], bool]
) -> list[RequestSession]:
    """Ask for a request after each entry, and compare it with one that is made anew where it is looked at."""
    lives: dict[str, RequestSession] = {}
    window: Window | None = None
    bodies: list[tuple[object, object]] = []
    with suppress(UnsupportedVersionError):
        for length, now in enumerate(windows(log, lane, policy, blobs=BLOBS), 1):
            if window is not now:
                window, lives = now, {api: RequestSession(now, api, BLOBS) for api in FORMATS}
            made_by = {api: lives[api].request() for api in FORMATS} if takes_part(now) else {}
            for api, made in made_by.items() if looks(length) else ():
                fresh = Window(lane, now.policy, now.counter, blobs=BLOBS)
                for entry in log[:length]:
                    fresh.take(entry)
                expected = from_window(fresh, api, BLOBS)
                assert made.body == expected.body == written_at_once(made, api)
                assert made == expected
                bodies.append((made.body, copy.deepcopy(made.body)))
    assert all(body == as_it_was for body, as_it_was in bodies)
    return [*lives.values()]


@seeds(6, slow=40)
def test_after_each_entry_it_is_the_request_that_is_made_anew(seeds: range) -> None:
    for seed in seeds:
        log = history(seed, longest=24)
        chosen = Random(seed).choice([None, *SMALL.values()])
        for lane in lanes(log):
            check(log, lane, chosen, lambda length, offset=seed % 4: length % 4 == offset)  # type: ignore[misc]


def test_an_empty_answer_ends_what_the_call_before_it_can_wait_for() -> None:
    log = entries(
        UserMessage(text="Look"),
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="a", name="look", arguments="{}")]),
        AssistantMessage(agent="coder"),
        ToolResult(call_id="a", name="look", text="late"),
        UserMessage(text="And?"),
        AssistantMessage(agent="coder", text="It came late."),
        UserMessage(text="Thanks"),
    )
    check(log, LaneId("coder"), None, lambda length: True)


def test_a_lane_that_only_listens_has_most_of_it_frozen() -> None:
    said = [UserMessage(text=f"{number}", author="Ada", to=["coder", "writer"]) for number in range(3 * LONG)]
    lives = check(entries(*said), LaneId("coder"), None, lambda length: length % 50 == 0)

    assert len(lives[0].window.frozen.units) >= LONG


def test_an_answer_to_what_was_seen_before_others_spoke_stands_before_them() -> None:
    turn: list[Event] = [UserMessage(text="What now?"), AssistantMessage(agent="coder", text="This.")]
    receipt = Receipt(view=11, sha256="0" * 64, api="plain@1", pipeline="", plan={})
    log = entries(
        *turn * 5,
        UserMessage(text="One"),
        UserMessage(text="Two"),
        AssistantMessage(agent="coder", text="To one", receipt=receipt),
        UserMessage(text="Three"),
        *turn * 3,
    )
    check(log, LaneId("coder"), None, lambda length: True)


class Telegrams(Writer):
    """An API of one's own, whose messages stand where no provider has them."""

    def write(self, pieces: Sequence[Message]) -> None:
        for piece in pieces:
            self.builder.messages.append({"from": piece.role, "says": texts(piece)})
            self.builder.explain(piece, "".join(texts(piece)))

    def close(self, pieces: Sequence[Message]) -> Body:
        self.write(pieces)
        return {"turns": self.builder.messages.copy()}


def test_a_wire_of_ones_own_goes_on_where_it_stood() -> None:
    api = Format("telegrams", 1, writer=Telegrams, messages="turns")
    log = session_log(3, 60)
    for lane in lanes(log):
        requests = list(every_request(log, lane.agent, task=lane.task, api=api, policy=FULL))
        last = build(log, lane.agent, task=lane.task, api=api, policy=FULL)
        assert requests[-1] == last
        assert requests[-1].receipt == last.receipt
