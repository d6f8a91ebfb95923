"""Recorded calls, built again: without a change as they were sent, under one as if it had always been so."""

from __future__ import annotations

from collections import Counter

import pytest

from stenolog import AgentCard, AssistantMessage, Entry, ModeSwitch
from stenolog.context import LastN
from stenolog.errors import StenologError
from stenolog.events import Origin, Receipt
from stenolog.projections.analysis.retry import Case, Change, Here, built, cases, retried, sample, tried
from stenolog.requests import build
from tests.random_cases import seeds
from tests.requests.given import CALL
from tests.requests.histories import BLOBS, START, at_work, history
from tests.requests.sessions import session_log

HERE = Here(blobs=BLOBS)
NEW = AgentCard(persona="You are a poet.", model="haiku-9")


def asked(case: Case, log: list[Entry], **given: object) -> object:
    """Return the body that `build` gives at a call, or the error's kind."""
    try:
        view = log[: case.view]
        lane, api = case.lane, case.api
        return build(view, lane.agent, task=lane.task, api=api, blobs=BLOBS, **given).body  # type: ignore[arg-type]
    except StenologError:
        return None


@seeds(40, slow=500)
def test_calls_are_built_as_build_does_at_their_places(seeds: range) -> None:
    for seed in seeds:
        log = at_work(seed) if seed % 2 else history(seed)
        made = cases(log)
        for change, given in ((Change(), {}), (Change(policy=LastN(3)), {"policy": LastN(3)})):
            found = {one.case.position: one.now for one in retried(made, log, change, HERE)}
            for case in made:
                if case.receipt is None:
                    now = found[case.position]
                    assert (now and now.body) == asked(case, log, **given)
                    if now is not None:
                        assert built(case, log, change, HERE).body == now.body


@seeds(40, slow=500)
def test_a_changed_card_is_as_if_it_had_been_so_from_the_beginning(seeds: range) -> None:
    fields = {"persona": NEW.persona, "model": NEW.model}
    for seed in seeds:
        log = [entry for entry in history(seed) if not isinstance(entry.event, ModeSwitch)]
        log = [entry._replace(position=position) for position, entry in enumerate(log, 1)]
        begins = Entry("fuzz", 1, "e1", START, "", ModeSwitch(title="A talk"))
        given: dict[str, AgentCard | None] = {"coder": NEW, "reviewer": NEW}
        other = [begins._replace(event=ModeSwitch(title="A talk", cards=given)), *log[1:]]
        log = [begins, *log[1:]]
        made = [case for case in cases(log) if case.receipt is None]
        for one in retried(made, log, Change(card=fields), HERE):
            assert (one.now and one.now.body) == asked(one.case, other)


@seeds(1, slow=20)
def test_a_change_is_found_in_each_call_that_it_concerns_and_in_no_other(seeds: range) -> None:
    for seed in seeds:
        log = session_log(seed, 80)
        made = cases(log)
        agent = made[seed % len(made)].lane.agent
        found = {one.case.position: one for one in tried(log, made, poet(agent))}
        short = tried(log, made, Change(policy=LastN(4)))

        for case in made:
            one = found[case.position]
            mine = case.lane.agent == agent
            assert (one.what, one.pointer.startswith("/")) == (("changed", True) if mine else ("same", False))
            assert (one.gone, one.added) == ((), ())
        for one in short:
            assert (one.what == "same") == (asked(one.case, log) == asked(one.case, log, policy=LastN(4)))
            assert all(first <= one.case.view for first, _ in one.gone)


def poet(agent: str) -> Change:
    return Change(card={"persona": "You are a poet."}, agent=agent)


def test_a_response_in_several_messages_is_one_call() -> None:
    parts = [AssistantMessage(agent="a", text=text, source=Origin(system="x", id="r1")) for text in "ab"]
    log = [Entry("talk", n, f"e{n}", START, "", event) for n, event in enumerate(parts, 1)]

    assert [(case.position, case.answer.text) for case in cases(log)] == [(1, "a\nb")]


def test_an_edit_and_a_count_of_tokens_are_no_calls_and_a_regenerated_answer_is() -> None:
    given: list[dict[str, object]] = [
        {},
        {"replaces": 1},
        {"replaces": 1, "receipt": Receipt(view=1, sha256="0")},
        {"purpose": "routing", "in_context": False, "receipt": Receipt(view=1, sha256="0")},
        {"purpose": "summary"},
    ]
    answers = [AssistantMessage(agent="a", text="Hi", **fields) for fields in given]  # type: ignore[arg-type]
    log = [Entry("talk", n, f"e{n}", START, "", event) for n, event in enumerate(answers, 1)]

    assert [case.position for case in cases(log)] == [1, 3]


@pytest.mark.parametrize("size", [0, 1, 7, 50, 99, 100, 200])
def test_a_sample_has_of_each_kind_as_large_a_part_as_of_all(size: int) -> None:
    answers = [AssistantMessage(agent="a", tool_calls=[CALL] if n % 3 else []) for n in range(100)]
    log = [Entry("talk", n, f"e{n}", START, "", event) for n, event in enumerate(answers, 1)]
    everything = cases(log)
    chosen = sample(everything, size)

    def kinds(some: list[Case]) -> Counter[tuple[str, int]]:
        return Counter((case.tool, case.view.bit_length()) for case in some)

    assert len(chosen) == min(size, 100)
    assert chosen == sorted(chosen, key=lambda case: case.position)
    for kind, number in kinds(everything).items():
        assert abs(kinds(chosen)[kind] - number * min(size, 100) / 100) < 1
