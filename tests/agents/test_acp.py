"""Agents of the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from stenolog.adapters.agents.acp import ACP
from stenolog.adapters.agents.answer_buffer import PermissionRequest
from stenolog.domain.errors import CallerError, MissingExtraError
from stenolog.domain.parts import ProviderPart, ReasoningPart, TextPart
from stenolog.domain.values import Usage
from stenolog.models import ModelResponse, ResponseDelta, Timeouts
from tests.agents import given
from tests.agents.given import asked, failed, prompt, run, words
from tests.forked import python

AGENT = str(Path(__file__).with_name("acp_agent.py"))


def agent(**options: Any) -> ACP:
    return ACP(python(AGENT, modules=("acp",)), **{"patience": 2.0} | options)


def test_one_session_answers_all_requests_of_a_lane_and_remembers_them() -> None:
    async def conversation(model: ACP) -> list[Any]:
        one = await asked(model, "one")
        two = await asked(model, "two", one.session)
        why = await model.lost("coder", "talk", two.session)
        anew = await asked(model, "anew")
        return [words(one), words(two), two.usage, two.finish_reason, why, words(anew)]

    counted = Usage(input=10, output=10)
    assert run(conversation, agent()) == ["1: one", "2: one | two", counted, "end_turn", "", "1: anew"]


@pytest.mark.parametrize(("permit", "said"), [(None, "no"), (True, "yes"), (False, "no")])
def test_what_it_does_by_itself_is_kept_and_what_it_asks_for_is_decided(
    permit: bool | None, said: str
) -> None:
    questions: list[PermissionRequest] = []

    async def decide(question: PermissionRequest) -> bool:
        questions.append(question)
        return bool(permit)

    *pieces, answer = run(
        lambda model: given.pieces(model, "work"), agent(permit=None if permit is None else decide)
    )

    assert isinstance(answer, ModelResponse)
    acts = [piece for piece in pieces if isinstance(piece, ResponseDelta) and piece.kind == "act"]
    assert pieces == [
        ResponseDelta(0, "reasoning", "Let me "),
        ResponseDelta(0, "reasoning", "see."),
        ResponseDelta(1, "text", "I look."),
        *acts,
        ResponseDelta(3, "text", f"It said {said}."),
    ]
    assert [(act.part, act.kind, act.id) for act in acts] == [(2, "act", "acp")] * len(acts)
    thought, look, note, last = answer.parts
    assert isinstance(note, ProviderPart)
    assert (thought, look, last) == (
        ReasoningPart(text="Let me see.", provider="acp"),
        TextPart(text="I look."),
        TextPart(text=f"It said {said}."),
    )
    assert (note.provider, json.loads(note.raw)) == (
        "acp",
        {
            "toolCallId": "t1",
            "title": "List files",
            "kind": "execute",
            "status": "completed",
            "rawInput": {"cmd": "ls"},
            "rawOutput": said,
            "permission": "allowed" if permit else "refused",
        },
    )
    assert questions == (
        []
        if permit is None
        else [PermissionRequest("List files", "execute", '{"cmd": "ls"}', "coder", "talk")]
    )


def test_a_cancelled_turn_is_cancelled_with_the_agent_which_goes_on() -> None:
    async def conversation(model: ACP) -> list[str]:
        one = await asked(model, "one")
        async with aclosing(model.stream(prompt("two: hang", one.session))) as stream:
            begun = await given.first(stream)
        return [begun, words(await asked(model, "three", one.session))]

    assert run(conversation, agent()) == ["begun", "3: one | two: hang | three"]


def test_a_question_that_nobody_answers_is_withdrawn_with_the_turn() -> None:
    questions = asyncio.Event()

    async def never(_: PermissionRequest) -> bool:
        questions.set()
        await asyncio.sleep(60)
        return True

    async def conversation(model: ACP) -> str:
        one = await asked(model, "one")

        async def listen() -> None:
            await given.pieces(model, "work", one.session)

        task = asyncio.create_task(listen())
        await questions.wait()
        task.cancel()
        await asyncio.wait([task])
        return words(await asked(model, "three", one.session))

    assert run(conversation, agent(permit=never)) == "3: one | work | three"


def test_one_that_does_not_heed_the_cancel_is_ended() -> None:
    async def conversation(model: ACP) -> list[Any]:
        one = await asked(model, "one")
        async with aclosing(model.stream(prompt("be stubborn", one.session))) as stream:
            begun = await given.first(stream)
        return [begun, model.is_alive("coder", "talk"), await model.lost("coder", "talk", one.session)]

    assert run(conversation, agent(patience=0.2)) == ["begun", False, f"{given.NAME} was ended by SIGTERM"]


def test_a_death_in_the_middle_of_an_answer_is_told_and_a_new_agent_is_told_everything() -> None:
    async def conversation(model: ACP) -> list[Any]:
        one = await asked(model, "one")
        said, error = await failed(model, "die", one.session)
        why = await model.lost("coder", "talk", one.session)
        return [said, error.category, error.message, why, words(await asked(model, "all of it"))]

    message = f"{given.NAME} ended with exit code 7: out of memory ***"
    assert run(conversation, agent(env={"SECRET_KEY": "sk-1234"})) == [
        "I was about to",
        "process_exited",
        message,
        message,
        "1: all of it",
    ]


def test_an_agent_that_can_takes_up_its_session_in_a_new_process(tmp_path: Path) -> None:
    async def conversation(model: ACP) -> list[Any]:
        one = await asked(model, "one")
        await failed(model, "die", one.session)
        why = await model.lost("coder", "talk", one.session)
        three = await asked(model, "three", one.session)
        return [why, words(three), three.session == one.session, three.usage]

    usage = Usage(input=10, output=10)
    assert run(conversation, agent(env={"STORE": str(tmp_path)})) == ["", "3: one | die | three", True, usage]


def test_a_session_that_the_agent_does_not_know_is_lost(tmp_path: Path) -> None:
    async def conversation(model: ACP) -> list[Any]:
        why = await model.lost("coder", "talk", "gone")
        _, error = await failed(model, "what is new", "gone")
        return [why, error.category, words(await asked(model, "all of it"))]

    assert run(conversation, agent(env={"STORE": str(tmp_path)})) == [
        "no process that remembers its session runs here",
        "process_exited",
        "1: all of it",
    ]


@pytest.mark.parametrize(
    ("text", "said", "category", "message"),
    [
        ("refuse", "", "refused", "the agent refused to go on"),
        ("fail", "half", "rate_limited", "Internal error: {'details': 'rate limit reached'}"),
        ("break", "", "other", "Internal error (cannot run as root)"),
        ("garbage", "", "invalid_response", "expected a JSON object in a line, found"),
    ],
)
def test_a_failure_has_its_category(text: str, said: str, category: str, message: str) -> None:
    found, error = run(lambda model: failed(model, text), agent())

    assert (found, error.category, error.message[: len(message)]) == (said, category, message)


@pytest.mark.parametrize(
    ("env", "connect", "category", "message"),
    [
        ({"SLOW": "1"}, 0.2, "timeout", f"{given.NAME} opened no session within 0.2 s"),
        ({"LOCKED": "sk-1234"}, 60, "unauthorized", "Authentication required: {'details': '***'}"),
        ({"VERSION": "99"}, 60, "other", "expected version 1 of the protocol, found version 99"),
    ],
)
def test_an_agent_that_opens_no_session_says_why(
    env: dict[str, str], connect: float, category: str, message: str
) -> None:
    model = agent(env=env, timeouts=Timeouts(connect=connect))

    _, error = run(lambda model: failed(model, "one"), model)

    assert (error.category, error.message) == (category, message)


def test_a_program_that_is_no_such_agent_ends_as_what_it_is() -> None:
    _, error = run(lambda model: failed(model, "one"), ACP(given.program("fail")))

    assert (error.category, error.message) == (
        "process_exited",
        f"{given.NAME} ended with exit code 3: line / line / the key  is wrong",
    )


def test_a_message_of_12_mb_is_one_message() -> None:
    assert words(run(lambda model: asked(model, "shout"), agent())) == "x" * 12_000_000


def test_mcp_servers_are_checked_at_once() -> None:
    with pytest.raises(CallerError, match=r"mcp_servers/1: expected name, command, .* found name"):
        agent(mcp_servers=[{"name": "x", "command": "y", "args": [], "env": []}, {"name": "x"}])


def test_a_missing_package_is_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if "agents.acp_" in name]:
        monkeypatch.delitem(sys.modules, module)
    import stenolog.adapters.agents

    monkeypatch.delattr(stenolog.adapters.agents, "acp_session", raising=False)
    monkeypatch.setitem(sys.modules, "acp", None)

    with pytest.raises(MissingExtraError, match=r'pip install "stenolog\[acp\]"'):
        ACP("agent")


def test_turns_and_deaths_leave_no_file_task_or_process_behind() -> None:
    async def conversation(model: ACP) -> list[int]:
        before = given.descriptors()
        for number in range(3):
            lane = f"lane {number}"
            session = (await asked(model, "one", lane=lane)).session
            for _ in range(8):
                await asked(model, "more", session, lane=lane)
            await failed(model, "die", session, lane=lane)
        await model.close()
        return [given.descriptors() - before, len(asyncio.all_tasks())]

    assert run(conversation, agent()) == [0, 1]
