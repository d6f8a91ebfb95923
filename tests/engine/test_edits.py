"""A person edits what they said, before, during and after the answer: the edit is always answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stenolog import Entry, Team, UserMessage
from stenolog.engine import Agent, EntryAppended, StreamDelta
from stenolog.models import ModelRequest, Scripted
from stenolog.projections.requests.pipeline.edits import ANEW
from tests.engine.given import answers, opened, outline, run, run_team

EDITED = UserMessage(text="Two, edited", replaces=2)


def asked(model: Scripted) -> list[list[str]]:
    """Return the messages sent to the model, request by request."""
    return [[message["content"] for message in prompt.body["messages"]] for prompt in model.prompts]


def test_an_edit_before_the_answer_is_all_that_the_model_is_asked(tmp_path: Path) -> None:
    model = Scripted("First.")
    with opened(tmp_path / "t.db") as conversation:
        team = Team([Agent("coder", llm=model)])
        run(team.send(conversation, "Two"))
        run(run_team(team, conversation, EDITED))

    assert asked(model) == [["Two, edited"]]


def test_an_edit_after_the_answer_is_answered_too(tmp_path: Path) -> None:
    model = Scripted("First.", "Second.")
    with opened(tmp_path / "t.db") as conversation:
        team = Team([Agent("coder", llm=model)])
        run(run_team(team, conversation, "Two"))
        run(run_team(team, conversation, EDITED))

        assert [text for _, text in outline(conversation)] == [
            "Two",
            "First.",
            "Two, edited",
            "Second.",
        ]
    assert asked(model) == [["Two"], ["Two", "First.", ANEW, "Two, edited"]]


def test_an_edit_while_the_answer_is_written_is_answered_next(tmp_path: Path) -> None:
    def first(prompt: ModelRequest) -> str:
        conversation.submit(EDITED)
        return "First."

    model = Scripted(first, "Second.")
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team([Agent("coder", llm=model)]), conversation, "Two"))

        assert [text for _, text in outline(conversation)] == [
            "Two",
            "Two, edited",
            "First.",
            "Second.",
        ]
    assert asked(model) == [["Two"], ["Two", "First.", ANEW, "Two, edited"]]


# A message that waits for the lanes to come to rest, and is erased before it is said.


def test_a_message_that_is_erased_while_it_waits_is_not_said_and_stops_no_run(tmp_path: Path) -> None:
    async def main() -> None:
        async for happened in team.run(conversation, "Go"):
            if isinstance(happened, StreamDelta) and not waits:
                waits.extend(await team.send(conversation, "a secret", on_input="queue"))
            elif isinstance(happened, EntryAppended) and happened.entry in waits:
                await asyncio.to_thread(conversation.erase, happened.entry.position)

    waits: list[Entry] = []
    team = Team([Agent("coder", llm=Scripted("one two three", piece=4, pause=0.1))])
    with opened(tmp_path / "t.db") as conversation:
        run(main())
        events = [entry.event for entry in conversation.entries()]
        said = [event.text for event in events if isinstance(event, UserMessage) and event.in_context]

        assert said == ["Go"]
        assert [answer.text for answer in answers(conversation)] == ["one two three"]
