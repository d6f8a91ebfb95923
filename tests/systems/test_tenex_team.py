"""System 3 with agents at work: what each is sent while others speak, whose session is whose; races."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stenolog
from examples.tenex.completions import Task, completions
from stenolog import (
    AssistantMessage,
    Conversation,
    Entry,
    LlmError,
    ModeSwitch,
    NewEntry,
    TextPart,
    UserMessage,
)
from stenolog.adapters.conversation.verifying.integrity import verify
from stenolog.adapters.store.reading import reader
from stenolog.context import Attribution, MissedMessages, SinceLastTurn
from stenolog.engine import Agent, Orchestrator, RetryPolicy, Team
from stenolog.errors import CorruptLogError, ModelError
from stenolog.models import ModelRequest, ModelResponse, Scripted
from stenolog.tools import ToolContext, tool
from tests.engine.given import opened, run, run_team
from tests.postgres.in_schemas import damage
from tests.systems.given import Room, shown

TENEX = Attribution(others="💬 {name}") | MissedMessages()
NAMES = ("pm", "coder", "tester")
AT_ONCE = RetryPolicy(attempts={"network": 3}, base=0.001)


def team(answer: Callable[[ModelRequest], object], **options: Any) -> Team:
    """Return three agents that answer by one function, under TENEX's policy unless another is given."""
    policy = options.pop("policy", TENEX)
    made = [Agent(n, llm=Scripted(answer, endless=True), policy=policy, retries=AT_ONCE) for n in NAMES]
    return Team(made, **options)


def echo(prompt: ModelRequest) -> str:
    return f"{prompt.lane} has heard you."


def answers(entries: list[Entry], agent: str = "") -> list[AssistantMessage]:
    said = [entry.event for entry in entries if isinstance(entry.event, AssistantMessage)]
    return [event for event in said if agent in ("", event.agent)]


# What an agent has seen


class Late(Scripted):
    """Answers after a while, which chance has drawn."""

    def __init__(self, answer: Callable[[ModelRequest], object], seed: int) -> None:
        super().__init__(answer, endless=True)
        self._chance = Random(seed)

    async def stream(self, prompt: ModelRequest) -> Any:
        await asyncio.sleep(self._chance.random() / 100)
        async for piece in super().stream(prompt):
            yield piece


@pytest.mark.parametrize("seed", range(3))
def test_parallel_agents_hear_every_word_of_the_others_exactly_once(tmp_path: Path, seed: int) -> None:
    def trio() -> Team:
        models = {name: Late(echo, seed * 10 + nth) for nth, name in enumerate(NAMES)}
        return Team([Agent(name, llm=models[name], policy=TENEX | SinceLastTurn()) for name in NAMES])

    for turn in range(4):
        with opened(tmp_path / "t.db") as conversation:
            run(run_team(trio(), conversation, f"{turn}", to=[*NAMES]))
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(trio(), conversation, "The end.", to=["tester"]))
        entries = list(conversation.entries())
        views = [a.receipt.view for a in answers(entries, "tester") if a.receipt]
        delivered = [p for view in views for p in told(conversation, "tester", view)]

    words = [e.position for e in entries if isinstance(e.event, UserMessage | AssistantMessage)]
    own = [e.position for e in entries if isinstance(e.event, AssistantMessage) and e.event.agent == "tester"]
    assert sorted(delivered) == [position for position in words if position not in own]


def told(conversation: Conversation, agent: str, view: int) -> list[int]:
    """Return the positions of others' words in what an agent was sent."""
    parts = conversation.request(agent, view).parts
    return [p for part in parts if part.rule in ("user", "attributed") for p in part.positions]


def test_who_was_asked_together_saw_the_same_and_gets_the_others_words_as_missed(tmp_path: Path) -> None:
    together = asyncio.Barrier(2)

    class Waits(Scripted):
        async def stream(self, prompt: ModelRequest) -> Any:
            await together.wait()
            async for piece in super().stream(prompt):
                yield piece

    agents = [Agent(name, llm=Waits(f"I {name}."), policy=TENEX) for name in ("coder", "tester")]
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(Team(agents), conversation, "Go.", to=["coder", "tester"]))
        assert [
            answer.receipt.view for answer in answers(list(conversation.entries())) if answer.receipt
        ] == [2, 2]
        conversation.append(UserMessage(text="And now?", to=["coder"]))
    with opened(tmp_path / "t.db") as conversation:
        request, seen = conversation.request("coder"), conversation.state().lane("coder").seen

    assert seen == 2
    assert [m["content"] for m in request.body["messages"]][-4:] == [
        "[MESSAGES WHILE YOU WERE AWAY]",
        "💬 tester\nI tester.",
        "[END OF MESSAGES WHILE YOU WERE AWAY]",
        "And now?",
    ]


def test_what_was_only_read_is_told_apart_from_what_was_answered(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:

        def answer(prompt: ModelRequest) -> str:
            if "Faster" not in str(prompt.body):
                conversation.append(UserMessage(text="Faster!", to=["coder"]))
            return f"I have {len(prompt.body['messages'])} messages."

        run(run_team(team(answer), conversation, "Build it.", to=["coder"]))
    with opened(tmp_path / "t.db") as conversation:
        first, last = (conversation.state(at).lane("coder") for at in (4, None))

    assert (first.seen, first.answered, first.status) == (2, 4, "awaiting_llm")  # "Faster!" stands at 3
    assert (last.seen, last.answered, last.status) == (4, 5, "idle")


def test_what_an_agent_was_shown_before_it_failed_was_read_and_not_answered(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        run(
            run_team(
                team(lambda _: ModelError("unauthorized", "no key")), conversation, "Build it.", to=["coder"]
            )
        )
    with opened(tmp_path / "t.db") as conversation:
        lane, error = conversation.state().lane("coder"), list(conversation.entries())[-1].event
        tasks = list(completions(conversation.entries()))

    assert isinstance(error, LlmError)
    assert error.receipt is not None
    assert (error.receipt.view, lane.answered) == (2, 0)
    assert tasks == [Task("coder", "agent", 2)]


# Sessions


class Backend:
    """Gives each lane of each conversation a session, and is surprised by another's."""

    def __init__(self) -> None:
        self.given: dict[str, tuple[str, str]] = {}
        self.began: list[tuple[str, str]] = []

    def __call__(self, prompt: ModelRequest) -> ModelResponse:
        where = (prompt.conversation, prompt.lane)
        if not prompt.session:
            self.began.append(where)
            self.given[f"session-{len(self.given)}"] = where
        session = prompt.session or f"session-{len(self.given) - 1}"
        assert self.given[session] == where
        return ModelResponse((TextPart(text=f"{prompt.lane} goes on."),), session=session)


def test_no_session_crosses_agents_conversations_forks_or_restarts(tmp_path: Path) -> None:
    backend = Backend()

    async def both(log: stenolog.Log, names: tuple[str, ...], say: str) -> None:
        three = team(backend, policy=TENEX | SinceLastTurn())
        await asyncio.gather(*(run_team(three, log[name], say, to=[*NAMES]) for name in names))

    for say in ("One.", "Two."):
        with stenolog.open(tmp_path / "t.db") as log:
            run(both(log, ("site", "shop"), say))
    with stenolog.open(tmp_path / "t.db") as log:
        log["site"].fork(name="what-if")
        run(both(log, ("what-if", "site"), "Three."))
        sessions = {name: [lane.session for lane in log[name].state().lanes.values()] for name in log}

    assert sorted(backend.began) == sorted(
        (name, lane) for name in ("site", "shop", "what-if") for lane in NAMES
    )
    assert len({session for of_conversation in sessions.values() for session in of_conversation}) == 9


def test_after_a_reset_an_agent_has_no_session_and_is_told_from_there(tmp_path: Path) -> None:
    backend = Backend()
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team(backend, policy=TENEX | SinceLastTurn()), conversation, "One.", to=["coder"]))
        conversation.append(
            ModeSwitch(context_from=conversation.position + 1), expected=conversation.position
        )
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(team(backend, policy=TENEX | SinceLastTurn()), conversation, "Two.", to=["coder"]))

    assert backend.began == [("demo", "coder"), ("demo", "coder")]


# Phases, hand-offs, the orchestrator


def hand_over(call: ToolContext, phase: str) -> str:
    """Enter a phase."""
    assert call.conversation is not None
    why = AssistantMessage(agent=call.lane, purpose="routing", text=f"Time to {phase}.")
    switch = ModeSwitch(mode=phase, handoff=f"What you must know to {phase}.")
    drafts = [NewEntry(why, f"why-{call.key}"), NewEntry(switch, f"phase-{call.key}")]
    call.conversation.extend(drafts, expected=call.conversation.position)
    return "Done."


def led() -> Team:
    """Return a team whose pm enters a phase, asks the coder, then the coder and the tester, and is done."""

    def lead(prompt: ModelRequest) -> object:
        sent = str(prompt.body["messages"])
        for cue, phase, words in (
            ("tests", "ship", "All done."),
            ("built", "test", "@tester and @coder, test."),
        ):
            if cue in sent:
                return words if f"to {phase}" in sent else stenolog.ToolCall(
                    id=phase, name="hand_over", arguments=f'{{"phase": "{phase}"}}'
                )  # fmt: skip
        return "@coder, build it."

    def help(prompt: ModelRequest) -> str:
        sent = str(prompt.body["messages"])
        return (
            f"{prompt.lane} tests."
            if "You must know to test" in sent or "to test" in sent
            else "It is built."
        )

    lead_model = Scripted(lead, endless=True)
    agents = [Agent("pm", llm=lead_model, tools=[tool(hand_over, repeat="keyed")], policy=TENEX)]
    agents += [Agent(name, llm=Scripted(help, endless=True), policy=TENEX) for name in ("coder", "tester")]
    return Team(agents, turns=Orchestrator(agent="pm"))


def step_by_step(path: Path) -> Iterator[int]:
    """Run one effect at a time, each by a team of its own on a log that was just opened."""
    while True:
        with opened(path) as conversation:
            done = run(led().advance(conversation))
        if not done:
            return
        yield len(done)


def test_an_orchestrated_project_restarted_before_each_step_ends_as_it_does_in_one_go(tmp_path: Path) -> None:
    with opened(tmp_path / "whole.db") as conversation:
        run(run_team(led(), conversation, "Build it."))
        whole = list(conversation.entries())
    with opened(tmp_path / "steps.db") as conversation:
        run(led().send(conversation, "Build it."))
    steps = list(step_by_step(tmp_path / "steps.db"))
    with opened(tmp_path / "steps.db") as conversation:
        again = list(conversation.entries())

    assert len(steps) > 6
    assert sorted(map(_said, again)) == sorted(map(_said, whole))
    assert next((t.agent, t.phase) for t in completions(again) if t.agent != "pm") == ("coder", "agent")
    assert {t.agent for t in completions(again) if t.phase == "test"} == {"coder", "tester"}
    assert all(task.answered for task in completions(again))
    assert again[-1].event.text == "All done."  # type: ignore[union-attr]


def _said(entry: Entry) -> tuple[str, str, str]:
    return entry.event.kind, getattr(entry.event, "agent", ""), getattr(entry.event, "text", "")


def test_routing_is_for_the_orchestrator_and_the_hand_off_for_whoever_is_next(tmp_path: Path) -> None:
    with opened(tmp_path / "t.db") as conversation:
        run(run_team(led(), conversation, "Build it."))
    with opened(tmp_path / "t.db") as conversation:
        views = {
            name: [a.receipt.view for a in answers(list(conversation.entries()), name) if a.receipt]
            for name in NAMES
        }
        tester, pm = (
            conversation.request("tester", views["tester"][0]),
            conversation.request("pm", views["pm"][-1]),
        )

    assert "Time to test." in pm.bytes.decode()
    assert "Time to test." not in tester.bytes.decode()
    assert tester.body["messages"][-1] == {"role": "system", "content": "What you must know to test."}


# Duplicates, races, corruption


def test_a_message_delivered_twice_is_said_once_and_answered_once(tmp_path: Path) -> None:
    for _ in range(2):
        with opened(tmp_path / "t.db") as conversation:
            run(run_team(team(echo), conversation, "Build it.", to=["coder"], id="event-1"))
    with opened(tmp_path / "t.db") as conversation:
        said = [getattr(entry.event, "text", "") for entry in conversation.entries(after=1)]

    assert said == ["Build it.", "coder has heard you."]


def test_two_teams_at_once_on_one_conversation_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    async def both(one: Conversation, two: Conversation) -> None:
        async def conversations(conversation: Conversation, mark: str) -> None:
            for turn in range(5):
                await run_team(team(echo), conversation, f"{mark}{turn}", to=[NAMES[turn % 3]])

        await asyncio.gather(conversations(one, "a"), conversations(two, "b"))

    with opened(tmp_path / "t.db") as one, opened(tmp_path / "t.db") as two:
        run(both(one, two))
    with opened(tmp_path / "t.db") as conversation:
        entries, state = list(conversation.entries()), conversation.state()
        report = verify(conversation.log)

    said = [entry.event.text for entry in entries if isinstance(entry.event, UserMessage)]
    causes = [(answer.agent, answer.cause) for answer in answers(entries)]
    assert sorted(said) == sorted(f"{mark}{turn}" for mark in "ab" for turn in range(5))
    assert len(causes) == len(set(causes))
    assert {lane.status for lane in state.lanes.values()} == {"idle"}
    assert report.ok


def test_one_corrupt_record_does_not_stop_the_rest_from_loading(room: Room) -> None:
    room.write(ModeSwitch(joins=NAMES), *(UserMessage(text=f"{n}") for n in range(5)))
    other = Room(room.path, "other").write(
        ModeSwitch(joins=NAMES), UserMessage(text="Unharmed.", to=["coder"])
    )
    damage(room.path, 3)

    with room.opened() as conversation:
        kinds = [entry.event.kind for entry in conversation.entries()]
        with pytest.raises(CorruptLogError, match="position 3"):
            list(conversation.entries(strict=True))
        problems = verify(conversation.log).problems

    assert kinds == ["mode_switch", "user_message", "damaged", *["user_message"] * 3]
    assert {problem.conversation for problem in problems} == {"room"}
    assert min(problem.position for problem in problems) == 3
    assert shown(other.request("coder")) == [((2,), "user")]


# No state beside the log


def test_a_view_is_loaded_when_it_is_looked_at_and_nothing_else_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stenolog.open(tmp_path / "t.db", synchronous="normal") as log:
        for number in range(40):
            log[f"talk-{number}"].extend(
                [ModeSwitch(joins=NAMES), UserMessage(text="Hi.", to=["coder"])], expected=0
            )
    read: list[tuple[str, int]] = []
    whole = reader.entries

    def watched(store: Any, stream: Any, *rest: Any) -> Iterator[Entry]:
        for entry in whole(store, stream, *rest):
            read.append((stream.name, entry.position))
            yield entry

    monkeypatch.setattr(reader, "entries", watched)
    with stenolog.open(tmp_path / "t.db") as log:
        assert (len(log.names()), read) == (40, [])
        log["talk-7"].request("coder")

    assert {name for name, _ in read} == {"talk-7"}


def test_all_that_the_agents_are_sent_comes_from_the_log_in_another_place(tmp_path: Path) -> None:
    with opened(tmp_path / "one.db") as conversation:
        run(run_team(team(echo), conversation, "Build it.", to=[*NAMES]))
        sent = {name: conversation.request(name).bytes for name in NAMES}
        events = [NewEntry(entry.event, entry.id, entry.time) for entry in conversation.entries()]
    with opened(tmp_path / "two.db") as conversation:
        conversation.extend(events, expected=0)

        assert {name: conversation.request(name).bytes for name in NAMES} == sent
