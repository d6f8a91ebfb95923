"""Laws read along a conversation find what they find in each of its bodies by itself."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog.projections.formats import validate, validator_of
from stenolog.projections.formats.checks import PersistentSet, conversation
from stenolog.projections.formats.plain.laws import TURN
from stenolog.projections.messages.quoting import markers
from stenolog.projections.requests import build, lanes
from tests.requests.histories import BLOBS, history
from tests.requests.judging import MODELS

Body = dict[str, Any]
KEYS = {"openai-chat": "messages", "openai-responses": "input", "anthropic": "messages", "gemini": "contents"}
ODD: tuple[Body, ...] = ({"role": "narrator"}, {"type": "odd"}, {"role": "user"}, {"type": "message"})
"""Messages of no API."""
AROUND: tuple[Body, ...] = (
    {},
    {"model": "claude-opus-5", "max_tokens": 9, "tools": []},
    {"model": "gemini-2.5-pro", "tool_choice": {}},
    {"model": "gemini-3-pro", "response_format": {"type": "json_object"}, "system": " "},
)
"""What stands around the messages, also such as a law forbids."""


@cache
def messages(api: str) -> list[Body]:
    """Return the messages of random histories, in order, and some without what they were about."""
    whole: list[Body] = []
    for log in map(history, range(40)):
        for lane in lanes(log):
            body = build(log, lane.agent, task=lane.task, api=api, blobs=BLOBS).body
            whole += conversation(body, KEYS[api])
    return [*whole, *(json.loads(json.dumps(one).replace('"c1"', '"c2"')) for one in whole), *ODD]


@st.composite
def changing(draw: st.DrawFn, api: str) -> list[Body]:
    """Return bodies that each begin as the one before it, for a while."""
    bodies: list[Body] = []
    said: list[Body] = []
    for _ in range(draw(st.integers(1, 6))):
        begins = draw(st.integers(0, len(messages(api)) - 1))
        run = messages(api)[begins : begins + draw(st.integers(0, 9))]
        said = said[: draw(st.integers(0, len(said)))] + run
        said += said[: draw(st.integers(0, 3))]
        bodies.append({**draw(st.sampled_from(AROUND)), KEYS[api]: said})
    return bodies


@pytest.mark.parametrize("api", MODELS)
def test_what_grows_shrinks_and_changes_breaks_the_same_laws_as_each_body_alone(api: str) -> None:
    @given(bodies=changing(api))
    def holds(bodies: list[Body]) -> None:
        found = validator_of(api)
        for body in bodies:
            assert found.violations(body) == validate(api, body)

    holds()


TEXT = st.lists(st.sampled_from(["User:", "Tool (a):", "\n", "\n\n", " ", "\r", "a\u2028", "("]), max_size=12)


@given(st.lists(st.tuples(st.integers(0, 20), TEXT.map("".join)), max_size=5))
def test_a_prompt_of_plain_text_is_read_on_by_paragraphs(changes: list[tuple[int, str]]) -> None:
    found, prompt = validator_of("plain"), ""
    for kept, more in changes:
        prompt = prompt[:kept] + more
        forged = [place for place in markers(prompt) if not _begins_a_turn(prompt, place)]

        told = [
            violation
            for violation in found.violations({"prompt": prompt})
            if violation.law == "no-forged-marker"
        ]

        assert [int(violation.found.rpartition(" ")[2]) for violation in told] == forged


def _begins_a_turn(prompt: str, place: int) -> bool:
    return (place == 0 or prompt[:place].endswith("\n\n")) and bool(TURN.match(prompt, place))


def test_a_list_that_was_added_to_after_it_was_read_is_read_on() -> None:
    said: list[Body] = [{"role": "user", "content": "go"}]
    found = validator_of("openai-chat")
    assert found.violations({"messages": said}) == []

    said.append({"role": "narrator", "content": "they went"})

    assert [violation.pointer for violation in found.violations({"messages": said})] == ["/messages/1/role"]


class Counted(dict[str, Any]):
    """A message that counts how often it is looked at."""

    looks = 0

    def get(self, *given: Any) -> Any:
        self.looks += 1
        return super().get(*given)


@pytest.mark.parametrize("api", KEYS)
def test_a_message_that_has_not_changed_is_not_read_again(api: str) -> None:
    said = [Counted(role="user", content=f"{n}", parts=[{"text": f"{n}"}]) for n in range(4)]
    found = validator_of(api)
    found.violations({KEYS[api]: said})
    looks = [one.looks for one in said]

    found.violations({KEYS[api]: [*said, {"role": "user", "content": "and", "parts": [{"text": "and"}]}]})

    # A law may be about how a conversation begins.
    assert [one.looks for one in said][1:] == looks[1:]
    assert min(looks) > 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=40))
def test_a_set_that_was_gone_back_to_is_what_it_was(steps: list[tuple[int, int]]) -> None:
    seen, members = [PersistentSet()], [set[int]()]
    for member, back in steps:
        kept = max(1, len(seen) - back)
        del seen[kept:], members[kept:]
        seen.append(seen[-1].plus(member))
        members.append(members[-1] | {member})

        assert {n for n in range(10) if n in seen[-1]} == members[-1]
