"""The law of the fast code: after every entry, a session gives the request that `builder` defines.

Compared are body, bytes, digest, parts, omissions, ledger and the reason where it may not be sent. The fast
suite tries some hundred generated logs, the slow one 10,000 and every prefix of every shared transcript.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from random import Random

import pytest

from stenolog import AgentCard, AssistantMessage, Entry, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.context import Budget, LastN
from stenolog.domain.errors import InvalidPolicyError
from stenolog.domain.policy import Policy, policy
from stenolog.events import Origin, PositionRange, Receipt
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.requests import LaneId, Request, build, builder, lanes
from stenolog.projections.requests.builder import ReadView, request_of, take
from stenolog.projections.requests.incremental.series import windows
from stenolog.projections.requests.incremental.session import RequestSession
from stenolog.projections.requests.incremental.window import Window
from stenolog.projections.requests.sendable import may_be_asked
from tests.random_cases import seeds
from tests.requests.corpus import TRANSCRIPTS, conversations, files
from tests.requests.given import log as entries
from tests.requests.histories import BLOBS, at_work, history
from tests.requests.policies import REAL, SMALL
from tests.requests.sessions import late_results, session_log

HERE = TRANSCRIPTS.is_dir()
STRANGER = LaneId("Somebody Else")
"""An agent that a log says nothing about: it can be asked all the same."""


def assert_equal(made: Request, defined: Request) -> None:
    """Compare two requests in everything that they say."""
    assert made.body == defined.body
    assert made.bytes == defined.bytes
    assert made.sha256 == defined.sha256
    assert made.parts == defined.parts
    assert made.omissions == defined.omissions
    assert made.read == defined.read
    assert made == defined


def compare(
    log: Sequence[Entry],
    lane: LaneId,
    policy: Policy | None,
    apis: Iterable[str],
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
) -> int:
    """Compare the requests of a lane after each entry, the APIs in turn; return how many there were."""
    compared, api = 0, cycle(apis)
    view: ReadView | None = None
    window: Window | None = None
    sessions: dict[str, RequestSession] = {}
    for length, now in enumerate(positioned(log, lane, policy, blobs), 1):
        if now is None:
            continue
        if now is not window or view is None:
            window, sessions = now, {}
            view = ReadView(lane, now.policy, now.counter, blobs)
            for entry in log[: length - 1]:
                take(view, entry)
        take(view, log[length - 1])
        if now.state.blocked is not None:
            break
        assert (now.left_out, now.cuts, now.holes) == (view.left_out, view.cuts, view.holes)
        name = next(api)
        if name not in sessions:
            sessions[name] = RequestSession(now, name, blobs)
        if may_be_asked(now):
            assert_equal(sessions[name].request(), request_of(view, name, blobs))
            compared += 1
    return compared


def positioned(
    log: Sequence[Entry], lane: LaneId, policy: Policy | None, blobs: Mapping[str, bytes]
) -> Iterable[Window | None]:
    """Yield the lane's window after each entry; None where the policy on its card cannot be used."""
    at = 0
    try:
        for window in windows(log, lane, policy, blobs=blobs):
            yield from [None] * (window.position - at - 1)
            yield window
            at = window.position
    except InvalidPolicyError:
        return


@pytest.mark.parametrize("name", SMALL)
def test_after_each_entry_of_a_teams_session_both_give_the_same_request(name: str) -> None:
    log = session_log(len(name), 40)
    for lane in lanes(log):
        assert compare(log, lane, SMALL[name], FORMATS) > 10


@pytest.mark.parametrize("name", SMALL)
def test_wherever_results_come_late_both_cut_the_same(name: str) -> None:
    assert compare(late_results(len(name), 60), LaneId("coder"), SMALL[name], ["anthropic"]) > 10


@pytest.mark.parametrize("seed", range(0, 60, 20))
def test_what_is_built_at_once_is_what_the_builder_builds(seed: int) -> None:
    log = session_log(seed, 60)
    for name, chosen in SMALL.items():
        made = build(log, "coder", policy=chosen, api="anthropic")

        assert made == builder.build_reference(log, "coder", policy=chosen, api="anthropic"), name


def test_an_empty_answer_that_stands_before_others_is_not_frozen_with_them() -> None:
    """It is a further part of an earlier answer, and was built on a view from before that."""
    part = Origin(system="claude-code", id="m1")
    log = entries(
        UserMessage(text="One"),
        UserMessage(text="Two"),
        AssistantMessage(agent="coder", text="Hm", source=part),
        UserMessage(text="Three"),
        AssistantMessage(agent="coder", source=part, receipt=Receipt(view=1, sha256="0")),
        AssistantMessage(agent="coder", text="Well"),
    )

    assert compare(log, LaneId("coder"), None, ["anthropic"]) == len(log)


def test_a_result_that_becomes_late_counts_once_more_in_a_budget() -> None:
    """The call gets a placeholder, and its result follows as text: what was measured together is more."""
    call = ToolCall(id="c1", name="shell")
    log = entries(
        UserMessage(text="One"),
        AssistantMessage(agent="coder", tool_calls=[call]),
        ToolResult(call_id="c1", text="1"),
        AssistantMessage(agent="coder", purpose="summary", covers=[PositionRange(first=1, last=1)], text="s"),
        AssistantMessage(agent="coder", text="2", receipt=Receipt(view=2, sha256="0")),
        *[UserMessage(text="More")] * 9,
    )
    for messages in range(4, 12):
        assert compare(log, LaneId("coder"), policy(Budget(messages=messages)), ["plain"]) == len(log)


def test_a_result_whose_call_was_hidden_before_it_came_counts_against_what_stays() -> None:
    """It is shown without its call, whose placeholder counts no more."""
    log = entries(
        AssistantMessage(agent="coder", tool_calls=[ToolCall(id="c1", name="shell")]),
        ModeSwitch(hides=[PositionRange(first=1, last=1)]),
        ToolResult(call_id="c1", text="1"),
        *[UserMessage(text="More")] * 3,
    )
    for number in (1, 2, 3):
        assert compare(log, LaneId("coder"), policy(LastN(number)), ["plain"]) == len(log)


@pytest.mark.parametrize("seed", [4772, 7596, 7718])
def test_a_log_that_once_showed_a_difference_shows_none(seed: int) -> None:
    """4772: tools change their order alone. The others: a foreign message goes on behind an edit or a cut."""
    compare_generated(seed)


@pytest.mark.parametrize("api", FORMATS)
def test_a_message_that_the_api_adds_counts_for_both_in_a_budget(api: str) -> None:
    asks_for_json = AgentCard(model="m", parameters={"response_format": {"type": "json_object"}})
    log = entries(
        ModeSwitch(joins=["coder"], cards={"coder": asks_for_json}),
        UserMessage(text="One"),
        AssistantMessage(agent="coder", text="1"),
        UserMessage(text="Two"),
    )
    for messages in (1, 2, 3):
        made = build(log, "coder", policy=Budget(messages=messages), api=api)

        assert made == builder.build_reference(log, "coder", policy=Budget(messages=messages), api=api)


@seeds(10, slow=400, nightly=10_000)
def test_after_each_entry_of_a_generated_log_both_give_the_same_request(seeds: range) -> None:
    for seed in seeds:
        compare_generated(seed)


def test_what_a_cut_left_without_a_reason_to_stay_goes_at_the_next_entry() -> None:
    compare_generated(4_517)


def compare_generated(seed: int) -> None:
    """Compare the requests of every lane of a generated log."""
    random = Random(seed)
    log = history(seed, longest=30)
    if seed % 5 == 0:
        log = session_log(seed, 60) if seed % 2 == 0 else late_results(seed, 60)
    if seed % 5 == 4:
        log = at_work(seed)
    chosen = random.choice([None, *SMALL.values()])
    for lane in (*lanes(log), STRANGER):
        compare(log, lane, chosen, random.sample([*FORMATS], len(FORMATS)), BLOBS)


FILES = files() if HERE else [Path("absent")]
NAMES = [*REAL]


@pytest.mark.slow
@pytest.mark.skipif(not HERE, reason="the transcripts are not beside this checkout")
@pytest.mark.parametrize("number", range(len(FILES)), ids=lambda n: FILES[n].name[-40:])
def test_at_every_prefix_of_every_shared_transcript_both_give_the_same_request(number: int) -> None:
    for nth, conversation in enumerate(conversations(FILES[number])):
        for lane in lanes(conversation.entries):
            chosen = REAL[NAMES[(number + nth) % len(NAMES)]]
            compare(conversation.entries, lane, chosen, FORMATS, conversation.blobs)
