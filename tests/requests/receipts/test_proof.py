"""What was sent is built again from its receipt: the same, different in a named place, or not provable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import (
    AgentCard,
    AssistantMessage,
    Entry,
    Event,
    LlmError,
    ModeSwitch,
    Tool,
    ToolResult,
    UserMessage,
)
from stenolog.context import Budget, LastN, Policy, SinceLastTurn, policy
from stenolog.domain.base.registry import HINT
from stenolog.domain.errors import AgentNotFoundError, UnsupportedVersionError
from stenolog.domain.values import Receipt
from stenolog.parts import ImagePart
from stenolog.projections.formats import FORMATS
from stenolog.projections.messages.body_digest import CHUNKS, first_difference, sections
from stenolog.projections.messages.sizes import COUNTER, COUNTERS, Counter
from stenolog.projections.requests import PIPELINE, build
from stenolog.projections.requests.proofs import Proof, proofs
from stenolog.projections.requests.request import sent_under
from tests.random_cases import seeds
from tests.requests.given import ASKED, CALL, calls, log
from tests.requests.histories import history
from tests.requests.policies import SMALL

POLICIES = (None, LastN(2), SinceLastTurn(), Budget(tokens=300))
TALK: tuple[Event, ...] = (
    ModeSwitch(
        joins=("coder",), cards={"coder": AgentCard(persona="You code.", parameters={"temperature": 0.5})}
    ),
    ASKED,
    calls("I look.", CALL),
    ToolResult(call_id="c1", text="a.py b.py"),
    LlmError(agent="coder", category="timeout", text="There are"),
    UserMessage(text="continue"),
    calls("two files."),
    UserMessage(text="Delete them"),
    calls("Done."),
)


def sent(events: Sequence[Event], api: str = "openai-chat", under: Policy | None = None) -> list[Entry]:
    """Return the log of a program that keeps the receipt of each request."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event, AssistantMessage | LlmError) and event.receipt is None:
            with suppress(
                AgentNotFoundError, UnsupportedVersionError
            ):  # nobody could have sent anything there
                request = build(log(*kept), event.agent, task=event.task, api=api, policy=under)
                event = replace(event, receipt=request.receipt)
        kept.append(event)
    return log(*kept)


def outcomes(found: Sequence[Proof]) -> list[tuple[int, str]]:
    return [(one.position, one.outcome) for one in found]


def edited(entries: list[Entry], position: int, **fields: Any) -> list[Entry]:
    """Return the log with other fields in one of its events, as nobody should do."""
    entry = entries[position - 1]
    changed = entry._replace(event=replace(entry.event, **fields))
    return [*entries[: position - 1], changed, *entries[position:]]


def with_receipt(**fields: Any) -> list[Entry]:
    """Return a log whose only receipt is another in these fields."""
    entries = sent(TALK[:3])
    receipt = getattr(entries[2].event, "receipt", None)
    assert isinstance(receipt, Receipt)
    return edited(entries, 3, receipt=replace(receipt, **fields))


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize("under", POLICIES, ids=lambda under: getattr(under, "slot", "card"))
def test_what_was_sent_is_built_again_to_the_byte(api: str, under: Any) -> None:
    found = proofs(sent(TALK, api, None if under is None else policy(under)))

    assert outcomes(found) == [(3, "same"), (5, "same"), (7, "same"), (9, "same")]
    assert [one.found for one in found] == [one.expected for one in found]


def test_what_an_earlier_pipeline_sent_is_built_again_by_its_rules() -> None:
    gone_on = (ASKED, calls("", CALL), calls("Never mind"), ASKED)
    earlier = replace(policy(), pipeline="requests@5")

    receipt = build(log(*gone_on), "coder", policy=earlier).receipt

    assert b"the call is still running" in build(log(*gone_on), "coder", policy=sent_under(receipt)).bytes
    assert build(log(*gone_on), "coder").receipt.sha256 != receipt.sha256
    (found,) = proofs(log(*gone_on, calls("Well", receipt=receipt)))
    assert (receipt.pipeline, found.outcome) == ("requests@5", "same")


@seeds(8, slow=40)
@pytest.mark.parametrize("under", SMALL.values(), ids=SMALL)
def test_every_receipt_of_an_earlier_pipeline_stays_provable(under: Policy, seeds: range) -> None:
    for seed in seeds:
        entries = sent([e.event for e in history(seed)], under=replace(under, pipeline="requests@5"))

        assert {one.outcome for one in proofs(entries)} <= {"same", "not-provable"}, seed


def test_a_message_that_was_changed_afterwards_is_named() -> None:
    found = proofs(edited(sent(TALK), 6, parts=UserMessage(text="go on").parts))

    assert outcomes(found) == [(3, "same"), (5, "same"), (7, "differs"), (9, "differs")]
    assert [one.reason for one in found[2:]] == ["/messages/6", "/messages/6"]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"persona": "You write."}, "/messages/0"),
        ({"tools": ()}, "/tools"),
        ({"parameters": {"temperature": 0.1}}, "/model or /temperature"),
    ],
)
def test_a_card_that_was_changed_afterwards_is_named_by_what_it_changes(
    fields: dict[str, Any], place: str
) -> None:
    shell = AgentCard(persona="You code.", parameters={"temperature": 0.5}, tools=[Tool(name="shell")])
    entries = sent([ModeSwitch(cards={"coder": shell}), ASKED, calls("ok")])

    found = proofs(edited(entries, 1, cards={"coder": replace(shell, **fields)}))

    assert [one.reason for one in found] == [place]


def test_where_the_window_was_cut_elsewhere_both_cuts_are_told() -> None:
    words = [event for n in range(9) for event in (UserMessage(text=f"{n} " * 200), calls(f"{n}"))]
    entries = sent(words, under=policy(Budget(tokens=900)))

    found = proofs(edited(entries, 1, parts=UserMessage(text="short").parts))

    assert "differs" in {one.outcome for one in found}
    assert [one.reason for one in found if one.outcome == "differs" and "cut: expected" in one.reason] != []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"pipeline": "requests@0"}, f"pipeline requests@0 is not here, {PIPELINE} is"),
        ({"pipeline": ""}, f"pipeline (unnamed) is not here, {PIPELINE} is"),
        ({"api": "openai-chat@0"}, "API openai-chat@0 is not here"),
        ({"api": "telex@1"}, f"API telex@1 is not here: {HINT}"),
        ({"counter": "abacus@1"}, "counter abacus@1 is not here"),
        (
            {"policy": {"budget": {"tokens": 9, "counter": "abacus"}}, "counter": "abacus@1"},
            "counter abacus@1 is not here",
        ),
        ({"policy": {"mood": {}}}, "policy /mood: no such rule; expected one of"),
    ],
)
def test_what_this_release_cannot_build_is_not_provable_and_says_why(
    fields: dict[str, Any], reason: str
) -> None:
    (found,) = proofs(with_receipt(**fields))

    assert (found.outcome, found.found) == ("not-provable", "")
    assert found.reason.startswith(reason)


def test_another_version_of_the_counter_is_another_counter() -> None:
    later = {"bytes4": Counter("bytes4@2", COUNTERS["bytes4"].count)}

    (found,) = proofs(sent(TALK[:3]), counters=later)

    assert (found.outcome, found.reason) == ("not-provable", "counter bytes4@1 is not here")


def test_what_was_built_on_an_entry_that_cannot_be_read_is_not_provable() -> None:
    entries = sent(TALK)

    found = proofs([*entries[:3], *entries[4:]])

    assert outcomes(found) == [(3, "same"), (5, "not-provable"), (7, "not-provable"), (9, "not-provable")]
    assert found[1].reason == "the entry at 4 cannot be read any more"


def test_a_blob_that_is_gone_leaves_its_requests_unproved_and_no_others() -> None:
    sha = "a" * 64
    picture = UserMessage(parts=[ImagePart(media_type="image/png", blob=sha)])
    events: list[Event] = [ModeSwitch(joins=("coder",)), ASKED, calls("yes?"), picture]
    receipt = build(log(*events), "coder", blobs={sha: b"png"}).receipt
    entries = sent([*events, calls("Nice.", receipt=receipt)])

    assert outcomes(proofs(entries, blobs={sha: b"png"})) == [(3, "same"), (5, "same")]
    found = proofs(entries)
    assert outcomes(found) == [(3, "same"), (5, "not-provable")]
    assert found[1].reason == "blob aaaaaaaaaaaa… is gone"


def test_a_request_of_a_lane_that_took_no_part_yet_is_not_provable() -> None:
    early = Receipt(view=1, sha256="0" * 64, api="openai-chat@1", pipeline=PIPELINE, counter=COUNTER)

    (found,) = proofs(log(ModeSwitch(joins=("coder-2",)), ASKED, calls("ok", receipt=early)))

    assert (found.outcome, found.reason) == ("not-provable", "the lane took no part yet")


def test_a_request_of_an_empty_conversation_is_built_again() -> None:
    receipt = build([], "coder").receipt

    assert outcomes(proofs(log(calls("Hello", receipt=receipt)))) == [(1, "same")]


def test_a_digest_without_sections_differs_somewhere() -> None:
    (found,) = proofs(with_receipt(sha256="0" * 64, plan={}))

    assert (found.outcome, found.reason) == ("differs", "somewhere: the receipt has no sections")


def test_a_log_without_receipts_has_nothing_to_prove() -> None:
    assert proofs(log(*TALK)) == []
    assert proofs([]) == []


@given(seed=st.integers(0, 10**6), api=st.sampled_from([*FORMATS]), under=st.sampled_from(POLICIES))
def test_whatever_history_it_is_what_was_sent_is_built_again(seed: int, api: str, under: Any) -> None:
    found = proofs(sent(random_events(seed), api, None if under is None else policy(under)))

    assert {one.outcome for one in found} <= {"same"}


def test_a_wire_of_ones_own_is_proved_where_it_is_given() -> None:
    own = FORMATS["plain"]._replace(name="telex", version=3)
    request = build(log(*TALK[:2]), "coder", api=own)
    entries = log(*TALK[:2], calls("ok", receipt=request.receipt))

    assert [one.reason for one in proofs(entries)] == [f"API telex@3 is not here: {HINT}"]
    assert [one.outcome for one in proofs(entries, apis={**FORMATS, "telex": own})] == ["same"]


bodies = st.fixed_dictionaries(
    {
        "model": st.just("m"),
        "messages": st.lists(st.fixed_dictionaries({"content": st.text(max_size=5)}), max_size=60),
        "tools": st.just([{"name": "shell"}]),
    }
)


@given(body=bodies, data=st.data())
def test_sections_name_the_place_of_a_change_within_an_eighth(body: dict[str, Any], data: Any) -> None:
    assert first_difference(sections(body, "messages"), body, "messages") == ""
    messages = body["messages"]
    if messages:
        at = data.draw(st.integers(0, len(messages) - 1))
        other = {**body, "messages": [*messages[:at], {"content": "something else"}, *messages[at + 1 :]]}

        differs = first_difference(sections(body, "messages"), other, "messages")
        first, _, last = differs.removeprefix("/messages/").partition("-")

        assert int(first) <= at <= int(last or first)
        assert int(last or first) - int(first) <= 2 * len(messages) / CHUNKS + 1


def test_messages_that_came_or_went_at_the_end_are_named_too() -> None:
    said = [{"content": str(n)} for n in range(40)]

    def differs(before: list[Any], after: list[Any]) -> str:
        return first_difference(sections({"turns": before}, "turns"), {"turns": after}, "turns")

    assert differs(said, [*said, 1, 2]) == "/turns/40-41"
    assert differs(said, said[:-1]) == "/turns/36-39"
    assert differs([], said[:1]) == "/turns/0"


def test_a_prompt_is_told_turn_by_turn() -> None:
    told = "System: a\n\nUser: b\n\nstill b\n\nAssistant (coder): c"

    differs = first_difference(
        sections({"prompt": told}, "prompt"), {"prompt": told.replace("c", "d")}, "prompt"
    )

    assert sections({"prompt": told}, "prompt")["prompt"][0] == 3
    assert differs == "/prompt, turn 2"


def test_sections_are_small_however_long_a_request_is() -> None:
    said = [{"role": "user", "content": str(n)} for n in range(10_000)]
    body = {"system": "You code.", "model": "m", "messages": said, "tools": [{"name": "shell"}]}

    assert len(json.dumps(sections(body, "messages"), separators=(",", ":"))) <= 160


def random_events(seed: int) -> list[Event]:
    """Return a history without receipts of its own."""
    return [
        replace(entry.event, receipt=None)
        if isinstance(entry.event, AssistantMessage | LlmError)
        else entry.event
        for entry in history(seed)
    ]
