"""What a request owes to entries that are no longer in view, or to those that a budget must keep."""

from __future__ import annotations

import pytest

from stenolog import AssistantMessage, Event, ModeSwitch, UserMessage
from stenolog.context import Attribution, Budget, MissedMessages, policy
from stenolog.parts import ImagePart
from stenolog.requests import FORMATS, build
from tests.requests.given import ASKED, calls, chat, log, said

ANEW = UserMessage(text="Anew")
OTHERS = AssistantMessage(agent="other", text="Tea"), UserMessage(text="For the other", to=["other"])


def test_after_a_reset_a_lane_has_missed_nothing_until_it_answers() -> None:
    before = log(ASKED, calls("ok"), *OTHERS, ANEW)
    after = log(ASKED, calls("ok"), ModeSwitch(context_from=3), *OTHERS, ANEW)
    notes = [
        [part.rule for part in build(each, "coder", policy=MissedMessages()).parts].count("away-note")
        for each in (before, after)
    ]

    assert notes == [2, 0]


def test_the_model_of_a_card_without_one_is_the_last_that_an_answer_named() -> None:
    one, none, two = calls("ok", model="m-1"), calls("well"), calls("good", model="m-2")

    assert chat(ASKED, one, none, ASKED).body["model"] == "m-1"
    assert chat(ASKED, one, none, two, ASKED).body["model"] == "m-2"


def test_a_budget_keeps_the_latest_message_to_the_agent_and_not_the_latest_of_all() -> None:
    long = [AssistantMessage(agent="other", text="word " * 400) for _ in range(6)]
    events: list[Event] = [ASKED, calls("ok"), UserMessage(text="Go on"), calls("Well"), *long]
    request = build(log(*events), "coder", policy=Budget(tokens=700))

    assert ("user", "Go on") in said(request)
    assert ("user", "List the files") not in said(request)


@pytest.mark.parametrize("api", FORMATS)
def test_a_picture_without_words_is_given_none_by_the_voices_of_a_policy(api: str) -> None:
    picture = UserMessage(author="ann", parts=[ImagePart(media_type="image/png", url="https://a.b/c")])
    voiced = build(log(picture), "coder", api=api, policy=policy(Attribution(user="{name}:")))

    assert voiced.body == build(log(picture), "coder", api=api).body
