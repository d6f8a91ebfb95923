"""Policies and budgets tried on every request, without a model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    Event,
    ModeSwitch,
    Tool,
    ToolResult,
    UserMessage,
)
from stenolog.context import Budget, LastN, Pins, SinceLastTurn, policy
from stenolog.domain.policy import Policy
from stenolog.domain.values import Usage
from stenolog.errors import AgentNotFoundError
from stenolog.projections.analysis.budget import BudgetRoom, BudgetRow, budget, budget_room, with_tokens
from stenolog.projections.formats import FORMATS
from stenolog.projections.prices import PRICES, Price, price_of
from stenolog.projections.requests import every_request
from tests.requests.given import CALL, calls, log

CARD = ModeSwitch(cards={"coder": AgentCard(model="gpt-5", persona="You code.", tools=())})


def turns(number: int, words: int = 60) -> list[Event]:
    return [
        CARD,
        *(e for n in range(number) for e in (UserMessage(text=f"{n} " * words), calls(f"Done {n}."))),
    ]


def rows(*events: Event, **given: object) -> list[BudgetRow]:
    return list(budget(log(*events), "coder", **given))  # type: ignore[arg-type]


def test_there_is_a_row_for_each_policy_under_each_budget_in_their_order() -> None:
    made = rows(*turns(3), policies=[policy(), LastN(2)], tokens=[500, 9_000])

    assert [(row.policy, row.tokens) for row in made] == [
        (policy(), 500),
        (policy(), 9_000),
        (policy(LastN(2)), 500),
        (policy(LastN(2)), 9_000),
    ]


def test_without_a_budget_nothing_is_cut_lost_or_unsendable() -> None:
    (row,) = rows(*turns(10))

    assert (row.requests, row.over, row.cuts, row.told, row.lost) == (10, 0, 0, 10, ())


def test_the_numbers_are_those_of_the_requests_themselves() -> None:
    events = turns(10)
    chosen = policy(Budget(tokens=400))

    (row,) = rows(*events, tokens=[400])

    built = list(every_request(log(*events), "coder", policy=chosen))
    sendable = [request for request in built if request.ready]
    assert (row.requests, row.cuts) == (len(sendable), built[-1].cuts)
    assert row.sent == sum(request.size.tokens for request in sendable)
    cut = {
        at
        for r in sendable
        for run in r.omissions
        if run.rule == "over-budget"
        for at in (run.first, run.last)
    }
    assert cut != set()
    assert row.lost == tuple(at for at in range(min(cut), max(cut) + 1) if at % 2 == 0)


def test_a_request_whose_needs_are_over_the_budget_is_counted() -> None:
    (row,) = rows(*turns(2), UserMessage(text="long " * 500), calls("ok"), tokens=[300])

    assert (row.requests, row.over) == (3, 1)


def test_what_was_never_for_the_agent_is_no_loss() -> None:
    other = UserMessage(text="for the reviewer alone", to=("reviewer",))
    scope = ModeSwitch(scope="addressed", joins=("reviewer",))
    for_coder: list[Event] = [UserMessage(text="word " * 60, to=("coder",)), calls("ok")] * 10

    (row,) = rows(CARD, scope, other, *for_coder, tokens=[400])

    assert row.told == 10
    assert 3 not in row.lost
    assert row.lost != ()


def test_pins_are_not_lost() -> None:
    (row,) = rows(*turns(10), policies=[Pins(positions=[2])], tokens=[400])

    assert 2 not in row.lost
    assert row.lost != ()


def test_between_cuts_all_that_was_sent_before_is_a_prefix() -> None:
    """Two requests of 1 and 3 messages: all of the first is in the second."""
    (row,) = rows(CARD, UserMessage(text="a" * 1000), calls("ok"), UserMessage(text="b"))

    assert 0.45 < row.cacheable < 0.5
    assert row.fresh < row.sent


def test_a_policy_that_moves_at_each_turn_costs_the_cache() -> None:
    full, last = rows(*turns(30), policies=[policy(), LastN(3)])

    assert full.cacheable > 0.9
    assert last.cacheable < 0.2


def test_with_delta_each_request_is_fresh() -> None:
    (row,) = rows(*turns(10, words=400), policies=[SinceLastTurn()])

    assert row.cacheable < 0.1


def test_the_cost_is_what_is_fresh_what_is_cached_and_what_was_answered() -> None:
    answer = AssistantMessage(agent="coder", text="ok", usage=Usage(input=9, output=2_000))
    (row,) = rows(
        CARD, UserMessage(text="a"), answer, UserMessage(text="b"), prices=[Price("gpt-*", 10, 1, 100)]
    )

    assert row.output == 2_000
    assert row.cost == pytest.approx((row.fresh * 10 + (row.sent - row.fresh) * 1 + 2_000 * 100) / 1e6)


def test_a_change_of_the_tools_makes_everything_fresh() -> None:
    two: list[Event] = [CARD, UserMessage(text="a" * 400), calls("ok")]
    switch = ModeSwitch(cards={"coder": AgentCard(model="gpt-5", tools=[Tool(name="look")])})

    (same,) = rows(*two, UserMessage(text="b"))
    (changed,) = rows(*two, switch, UserMessage(text="b"))

    assert changed.fresh == changed.sent
    assert same.fresh < same.sent


def test_answers_without_a_count_are_estimated_and_those_of_others_are_not_counted() -> None:
    (row,) = rows(*turns(1), AssistantMessage(agent="reviewer", text="x" * 4000))

    assert row.output == 2


def test_a_model_without_a_price_has_no_cost() -> None:
    card = ModeSwitch(cards={"coder": AgentCard(model="home-made")})

    assert [row.cost for row in rows(card, UserMessage(text="hi"))] == [None]


def test_the_first_price_that_fits_is_taken() -> None:
    mini, large = Price("gpt-5-mini*", 1, 1, 1), Price("gpt-5*", 2, 2, 2)

    assert price_of("gpt-5-mini-2025", [mini, large]) == mini
    assert price_of("gpt-5.1", [mini, large]) == large
    assert price_of("claude", [mini, large]) is None
    assert price_of("gpt-5-mini", PRICES) == PRICES[0]


def test_a_budget_keeps_what_the_policy_says_of_other_measures() -> None:
    chosen = policy(Budget(tokens=10, messages=5, reserve=7)) | LastN(3)

    assert with_tokens(chosen, 100) == policy(Budget(tokens=100, messages=5, reserve=7)) | LastN(3)
    assert with_tokens(policy(), 100) == policy(Budget(tokens=100))


def test_a_lane_is_measured_by_itself() -> None:
    conversation = log(CARD, UserMessage(text="a", to=("coder/t1",)), UserMessage(text="b", to=("coder",)))

    (own,), (task,) = budget(conversation, "coder"), budget(conversation, "coder", task="t1")

    assert (own.requests, task.requests) == (1, 2)


def test_an_agent_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(AgentNotFoundError):
        rows(UserMessage(text="a", to=("reviewer",)))


def test_requests_in_a_loop_of_tools_are_counted_where_the_model_is_asked() -> None:
    (row,) = rows(
        CARD, UserMessage(text="go"), calls("", CALL), ToolResult(call_id="c1", text="ok"), calls(".")
    )

    assert row.requests == 2


# The arithmetic of a budget says which budget would cut nothing, and what a cut leaves.


@pytest.fixture
def talk() -> Iterator[Conversation]:
    """Yield a conversation of many short messages."""
    with stenolog.open(":memory:") as log:
        log["x"].join("guide", model="m", persona="Be brief.")
        for number in range(12):
            log["x"].append(UserMessage(f"What is {number} in words?"))
            log["x"].append(AssistantMessage(agent="guide", text=f"It is number {number}."))
        log["x"].append(UserMessage("And now?"))
        yield log["x"]


def room_of(talk: Conversation, policy: Policy | Budget, api: str = "openai-chat") -> tuple[BudgetRoom, ...]:
    return budget_room(talk.request("guide", api=api, policy=policy), talk.entries())


def test_the_smallest_budget_that_cuts_nothing_is_the_measured_size_and_what_is_around_it(
    talk: Conversation,
) -> None:
    (room,) = room_of(talk, Budget(tokens=200))
    least = room.measured + room.limit - room.room

    assert talk.request("guide", policy=Budget(tokens=least)).cuts == 0
    assert talk.request("guide", policy=Budget(tokens=least - 1)).cuts == 1
    assert room_of(talk, Budget(tokens=least))[0].shown == room.measured


def test_it_is_the_same_on_every_api_and_never_below_what_is_sent(talk: Conversation) -> None:
    rooms = {room_of(talk, Budget(tokens=200), api) for api in FORMATS}
    ((room,),) = rooms
    sent = [talk.request("guide", api=api).size.tokens for api in FORMATS]

    assert room.measured + room.limit - room.room > max(sent)


def test_a_cut_leaves_its_target_of_the_room(talk: Conversation) -> None:
    (room,) = room_of(talk, Budget(tokens=400, cut_to=50))

    assert room.target == room.room // 2
    assert room.target <= room.room < room.measured


def test_each_limit_has_its_own(talk: Conversation) -> None:
    rooms = room_of(talk, Budget(messages=9, tokens=4_000, bytes=9_000))

    assert [(room.unit, room.limit) for room in rooms] == [
        ("messages", 9),
        ("tokens", 4_000),
        ("bytes", 9_000),
    ]
    assert rooms[0].measured == 25


def test_without_a_budget_there_is_none(talk: Conversation) -> None:
    assert budget_room(talk.request("guide"), talk.entries()) == ()
