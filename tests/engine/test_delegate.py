"""An agent that another one calls as a tool: what it knows, what it may use, and what is merged of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stenolog import Conversation, ModelFailed, Team, Text, ToolResult, Usage
from stenolog.engine import Agent, Delegate, Limits
from stenolog.models import Answer, Prompt, Scripted
from tests.engine.given import call, opened, run, told, worked

TASK = json.dumps({"task": "Count the cats."})


def lead(worker: Agent, **options: Any) -> Agent:
    model = Scripted([call("ask_reader", arguments=TASK)], "There are three.")
    return Agent("lead", llm=model, tools=[Delegate(worker, **options)], limits=Limits(max_tokens=100_000))


def results(talk: Conversation) -> list[ToolResult]:
    return [entry.event for entry in talk.entries() if isinstance(entry.event, ToolResult)]


@pytest.mark.parametrize(
    ("context", "knows"), [("fresh", False), ("fork", True), ("scope", True)], ids=["fresh", "fork", "scope"]
)
def test_a_worker_knows_what_its_context_gives_it(tmp_path: Path, context: Any, knows: bool) -> None:
    reader = Scripted("Three.")
    with opened(tmp_path / "t.db") as talk:
        run(
            worked(
                Team([lead(Agent("reader", llm=reader), context=context)]), talk, "My house is full of cats."
            )
        )
        seen = json.dumps(reader.prompts[0].body)

        assert ("My house" in seen, "Count the cats." in seen) == (knows, True)
        assert [result.text for result in results(talk)] == ["Three."]
        assert told(talk)[-1] == ("assistant_message", "There are three.")


def test_parent_and_child_name_each_other(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as talk:
        run(worked(Team([lead(Agent("reader", llm=Scripted("Three.")))]), talk, "Go"))
        link: Any = results(talk)[0].meta["stenolog"]
        child = talk.log[link["child"]["conversation"]]
        parent = child.settings().parent

        assert parent is not None
        assert (parent.conversation, parent.position) == ("demo", 3)
        assert next(child.entries(link["child"]["position"] - 1)).event.text == "Three."  # type: ignore[union-attr]


def test_a_worker_in_a_scope_is_no_member(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as talk:
        run(worked(Team([lead(Agent("reader", llm=Scripted("Three.")), context="scope")]), talk, "Go"))

        assert talk.state().members == ("lead",)


def test_a_worker_that_fails_is_an_error_that_says_why(tmp_path: Path) -> None:
    reader = Agent("reader", llm=Scripted(ModelFailed("unauthorized", "no such key")))
    with opened(tmp_path / "t.db") as talk:
        run(worked(Team([lead(reader)]), talk, "Go"))
        (result,) = results(talk)

    assert result.is_error
    assert "unauthorized: no such key" in result.text


def test_a_worker_uses_no_more_than_its_share(tmp_path: Path) -> None:
    def costly(prompt: Prompt) -> Answer:
        return Answer((Text(text="Hm."), call("nothing")), usage=Usage(input=9_000, output=1_000))

    reader = Agent(
        "reader", llm=Scripted(costly, endless=True), limits=Limits(same_error=None, same_call=None)
    )
    with opened(tmp_path / "t.db") as talk:
        run(worked(Team([lead(reader, share=0.25)]), talk, "Go"))
        (result,) = results(talk)

    assert "max_tokens: 30,000 of 24," in result.text


def test_a_task_without_words_is_refused(tmp_path: Path) -> None:
    model = Scripted([call("ask_reader", arguments="{}")], "Sorry.")
    reader = Agent("reader", llm=Scripted("never"))
    with opened(tmp_path / "t.db") as talk:
        run(worked(Team([Agent("lead", llm=model, tools=[Delegate(reader)])]), talk, "Go"))

        assert results(talk)[0].is_error
        assert len(talk.log) == 1
