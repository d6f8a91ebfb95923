"""What a list shows of a conversation, folded from its entries."""

from __future__ import annotations

import pytest

from stenolog import AgentCard, AssistantMessage, LlmError, ModeSwitch, UserMessage
from stenolog.domain.lanes.limits import Tokens
from stenolog.events import Control, Origin, Usage
from stenolog.projections.views.overview import overview, person_words
from stenolog.projections.views.usage import understates, usage
from stenolog.testing import entries

FILE = Origin(system="claude-code", id="m1")


def test_the_words_are_what_a_person_said_first_and_the_folder_is_the_first() -> None:
    log = entries(
        UserMessage(control=Control(action="continue")),
        UserMessage(text="a worker's", author="w", author_kind="agent"),
        UserMessage(text="  one\n two " + "x" * 200),
        ModeSwitch(meta={"other": 3, "codex": {"cwd": "/home/user/shop", "branch": "main"}}),
        UserMessage(text="later"),
        ModeSwitch(meta={"codex": {"cwd": "/home/user/shop/web", "branch": "fix"}}),
    )
    found = overview(log)

    assert (found.words, found.turns) == (f"one two {'x' * 91}…", 2)
    assert (found.folder, found.branch) == ("/home/user/shop", "fix")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<system-reminder>Be brief.\nAlways.</system-reminder>\n\nFix the test.", "Fix the test."),
        ("<command-name>/review</command-name><command-args> 12 </command-args>", "/review 12"),
        ("<command-message>clear</command-message>\n<command-name>/clear</command-name>", "/clear"),
        ("<b>bold</b> is <not-closed> text", "<b>bold</b> is <not-closed> text"),
        ("<system-reminder>only that</system-reminder>", ""),
    ],
)
def test_what_a_program_put_around_the_words_of_a_person_is_no_title(text: str, words: str) -> None:
    assert person_words(text) == words


def test_the_first_words_are_looked_for_until_a_person_has_said_some() -> None:
    log = entries(UserMessage(text="<system-reminder>x</system-reminder>"), UserMessage(text="Go."))

    assert overview(log).words == "Go."


def test_answers_are_counted_by_agent_and_model_and_a_card_names_the_model_of_one_that_does_not() -> None:
    card = AgentCard(model="gpt-5")
    log = entries(
        ModeSwitch(cards={"a": card}),
        AssistantMessage(agent="a", text="1", usage=Usage(input=5, output=1)),
        AssistantMessage(agent="b", text="2", model="o3"),
        AssistantMessage(agent="a", text="3", usage=Usage(input=7, output=1)),
    )
    found = overview(log)

    assert (found.answers, found.models) == ({"a": 2, "b": 1}, {"gpt-5": 2, "o3": 1})
    assert found.tokens == {"gpt-5": Tokens(input=12, output=2)}
    assert found.partial == 1


def test_a_call_that_a_person_interrupted_is_no_error() -> None:
    failed = (LlmError(agent="a", category=category) for category in ("cancelled", "timeout"))
    log = entries(*failed)

    assert overview(log).errors == usage(log).total.failed == 1


def test_an_imported_answer_with_fewer_tokens_than_its_words_need_understates_them() -> None:
    few, text = Usage(input=9, output=1), "a hundred characters" * 5

    assert understates(AssistantMessage(agent="a", text=text, usage=few, source=FILE))
    assert not understates(AssistantMessage(agent="a", text=text, usage=few))
    assert not understates(AssistantMessage(agent="a", text="ok", usage=few, source=FILE))
    assert not understates(AssistantMessage(agent="a", text=text, source=FILE))
