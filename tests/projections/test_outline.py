"""The outline of a conversation: turns with their tokens, and the sub-agents that calls started in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from hypothesis import given

from stenolog import AssistantMessage, Entry, ToolCall, ToolResult, UserMessage
from stenolog.domain.lanes.limits import Tokens
from stenolog.events import Usage
from stenolog.projections.views.outline import Outline
from stenolog.projections.views.overview import overview
from stenolog.projections.views.tool_pairs import CallKey
from stenolog.testing import entries
from tests.strategies import logs


def outlined(log: Iterable[Entry]) -> Outline:
    outline = Outline()
    for entry in log:
        outline.take(entry)
    return outline


@given(logs(max_size=40))
def test_turns_count_each_message_and_each_token_that_the_overview_counts(log: list[Entry]) -> None:
    turns = [row for row in outlined(log).rows if not row.lane]
    whole = overview(log)

    spoken = [row for row in turns if log[row.position - 1].event.kind == "user_message"]
    assert len(spoken) == whole.turns
    for name in ("tokens", "billed"):
        spent: Counter[str] = Counter()
        for row in turns:
            spent.update({model: sum(used) for model, used in getattr(row, name).items()})
        assert +spent == +Counter({model: sum(used) for model, used in getattr(whole, name).items()})


@given(logs(max_size=40))
def test_an_outline_that_was_stored_goes_on_as_one_that_was_not(log: list[Entry]) -> None:
    half = outlined(log[: len(log) // 2])
    stored = Outline.load(json.loads(json.dumps(half.dump())))
    for entry in log[len(log) // 2 :]:
        stored.take(entry)

    assert stored.rows == outlined(log).rows
    assert [row.position for row in stored.rows] == sorted(row.position for row in stored.rows)


def test_a_sub_agent_is_in_the_turn_of_the_call_that_has_its_brief() -> None:
    brief = "Look for the parser in all files of this folder."
    used = Usage(input=100, output=5)
    call = ToolCall(id="c", name="Task", arguments=json.dumps({"kind": "Explore", "prompt": brief}))
    log = entries(
        UserMessage("Where is the parser?", to=["claude"]),
        AssistantMessage(agent="claude", model="m", parts=[call], usage=used),
        UserMessage(brief, author="claude", author_kind="agent", to=["explore"]),
        AssistantMessage(agent="explore", model="m", text="In parser.py.", usage=used),
        ToolResult(call_id="c", name="Task", text="In parser.py."),
        UserMessage("A word among agents.", author="claude", author_kind="agent", to=["other"]),
        UserMessage("Thanks.", to=["claude"]),
    )
    first, inner, last = outlined(log).rows

    assert (first.position, inner.position, last.position) == (1, 3, 7)
    assert (inner.lane, inner.call, inner.words) == ("explore", CallKey(2, 0), brief)
    assert (first.tokens, inner.tokens) == ({"m": Tokens(200, 10)}, {"m": Tokens(100, 5)})
