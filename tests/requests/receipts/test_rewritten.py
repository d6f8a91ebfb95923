"""A stored conversation that is rewritten for a question: the same request as by the whole log, and soon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stenolog
from stenolog import AssistantMessage, Entry, Event, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.adapters.conversation.queries.requests.rewritten import rewritten_request
from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.context import Budget, LastN
from stenolog.domain.settings import settings as settings_of
from stenolog.errors import StenologError
from stenolog.events import PositionRange
from stenolog.projections.analysis.whatif import whatif
from stenolog.projections.requests import build, lanes
from stenolog.projections.requests.choosing import choose
from stenolog.projections.requests.incremental.series import from_window, window
from tests.strategies import logs

POLICIES = (None, Budget(tokens=60), LastN(3), Budget(tokens=200))
TALK: list[Event] = [
    ModeSwitch(joins=("coder",)),
    *(
        event
        for number in range(40)
        for event in (
            UserMessage(text=f"Please look at part {number} of it.", to=("coder",)),
            AssistantMessage(
                agent="coder", tool_calls=[ToolCall(id=f"c{number}", name="sh", arguments="{}")]
            ),
            ToolResult(call_id=f"c{number}", text="it is well " * (number % 7)),
            AssistantMessage(agent="coder", text=f"Part {number} is well."),
        )
    ),
]


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stenolog.Conversation]:
    with stenolog.open(tmp_path_factory.mktemp("rewritten") / "talks.db") as log:
        log["talk"].extend(TALK, expected=0)
        yield log["talk"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_it_is_the_request_of_the_whole_log(talk: stenolog.Conversation, data: st.DataObject) -> None:
    at = data.draw(st.integers(2, len(TALK)))
    positions = st.integers(2, at)
    without = [
        PositionRange(first=min(pair), last=max(pair))
        for pair in data.draw(st.lists(st.tuples(positions, positions), max_size=2))
    ]
    edits = data.draw(
        st.dictionaries(positions, st.sampled_from(("", "other words", "many words " * 30)), max_size=2)
    )
    mode = data.draw(st.sampled_from((None, "agent")))
    asked: dict[str, Any] = {
        "without": without,
        "edits": edits,
        "mode": mode,
        "policy": data.draw(st.sampled_from(POLICIES)),
    }
    api = data.draw(st.sampled_from(("openai-chat", "anthropic")))

    other = rewritten_request(talk, "coder", "", at, api, **asked)

    whole = whatif(list(talk.entries(at=at)), "coder", api=api, **asked, counters=COUNTERS).other
    assert other.bytes == whole.bytes
    assert other == whole


@given(logs(), st.integers(0, 15))
def test_a_window_that_branches_off_goes_on_as_the_whole_log_does(log: list[Entry], at: int) -> None:
    for lane in lanes(log)[:2]:
        for asked in POLICIES[:3]:
            try:
                chosen, counter = choose(settings_of(log), lane.agent, asked, COUNTERS)
                trunk = window(lane, chosen, log[:at], counter)
                branch = trunk.branch()
                for made in (trunk, branch):
                    for entry in log[at:]:
                        made.take(entry)
                expected = build(log, lane.agent, task=lane.task, policy=chosen)
            except StenologError:
                continue
            assert from_window(branch, "openai-chat") == from_window(trunk, "openai-chat") == expected
