"""A program that runs on: one process for each lane, which remembers what it was told."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from stenolog.adapters.agents import command_line
from stenolog.adapters.agents.command_line import END, CommandLine, HealthCheck
from stenolog.adapters.agents.output_formats import OUTPUT_FORMATS, JsonLines
from stenolog.domain.errors import CallerError, ModelError
from stenolog.domain.values import Usage
from stenolog.models import ModelResponse, ResponseDelta
from tests.agents import given
from tests.agents.given import asked, failed, pieces, prompt, run, runs_on, words

FORMS = pytest.mark.parametrize("form", ["text", "jsonl"])
ROOT = Path(__file__).parents[2]
NOT_HERE = "no process that remembers its session runs here"


async def lost(model: CommandLine, session: str, lane: str = "coder", conversation: str = "talk") -> str:
    return await model.lost(lane, conversation, session)


@FORMS
def test_one_process_answers_all_requests_of_a_lane_and_remembers_them(form: str) -> None:
    async def conversation(model: CommandLine) -> list[str]:
        one = await asked(model, "one")
        two = await asked(model, "two\nlines", one.session)
        assert one.session == two.session
        return [words(one), words(two), await lost(model, two.session)]

    assert run(conversation, runs_on(form)) == ["1: one", "2: one | two\nlines", ""]


@FORMS
def test_each_lane_of_each_conversation_has_a_process_of_its_own(form: str) -> None:
    async def conversation(model: CommandLine) -> list[str]:
        places = [("coder", "a"), ("coder/2", "a"), ("coder", "b")]
        answers = await asyncio.gather(
            *(
                asked(model, f"{lane} {conversation}", lane=lane, conversation=conversation)
                for lane, conversation in places
            )
        )
        assert len({answer.session for answer in answers}) == 3
        return [words(answer) for answer in answers]

    assert run(conversation, runs_on(form)) == ["1: coder a", "1: coder/2 a", "1: coder b"]


@FORMS
def test_a_death_in_the_middle_of_an_answer_is_told_with_its_reason_and_what_was_said(form: str) -> None:
    said, error = run(lambda model: failed(model, "go and die"), runs_on(form))

    assert (said, error.category, error.message) == (
        "I was about to",
        "process_exited",
        f"{given.NAME} ended with exit code 7: out of memory",
    )


@FORMS
def test_a_death_between_two_requests_is_told_before_the_next_and_then_there_is_a_new_process(
    form: str,
) -> None:
    async def conversation(model: CommandLine) -> list[str]:
        one = await asked(model, "one")
        await given.killed(model)
        why = await lost(model, one.session)
        again = await asked(model, "all of it")
        return [why, words(again), await lost(model, again.session), str(again.session != one.session)]

    assert run(conversation, runs_on(form)) == [
        f"{given.NAME} was ended by SIGKILL",
        "1: all of it",
        "",
        "True",
    ]


def test_a_request_that_counts_on_a_dead_process_is_refused_and_never_given_to_a_new_one() -> None:
    async def conversation(model: CommandLine) -> tuple[str, ModelError]:
        one = await asked(model, "one")
        await given.killed(model)
        return await failed(model, "only what is new", one.session)

    said, error = run(conversation, runs_on())

    ended = f"{given.NAME} was ended by SIGKILL"
    assert (said, error.category, error.message) == ("", "process_exited", ended)


def test_a_session_of_an_earlier_life_of_this_program_is_lost() -> None:
    assert run(lambda model: lost(model, "5e55"), runs_on()) == NOT_HERE


def test_a_session_is_not_lost_where_the_program_can_take_it_up() -> None:
    resumes = JsonLines(OUTPUT_FORMATS["jsonl"].read, resume=("--resume", "{session}"))

    async def conversation(model: CommandLine) -> tuple[str, ModelResponse]:
        return await lost(model, "5e55"), await asked(model, "what is new", "5e55")

    why, answer = run(conversation, CommandLine(given.program("jsonl"), mode="long-lived", format=resumes))

    assert (why, words(answer), answer.session) == ("", "1: what is new", "5e55")


def test_a_lane_without_a_session_begins_anew() -> None:
    async def conversation(model: CommandLine) -> list[str]:
        await asked(model, "one")
        return [words(await asked(model, "all of it"))]

    assert run(conversation, runs_on()) == ["1: all of it"]


def test_the_session_and_the_usage_that_a_program_tells_are_kept() -> None:
    async def conversation(model: CommandLine) -> ModelResponse:
        return await asked(model, "two", (await asked(model, "one")).session)

    answer = run(conversation, runs_on("jsonl", env={"SESSION": "its own"}))

    assert (answer.session, answer.usage) == ("its own", Usage(output=3))


@FORMS
def test_an_interrupted_process_ends_its_turn_and_goes_on(form: str) -> None:
    async def conversation(model: CommandLine) -> list[str]:
        one = await asked(model, "one")
        async with aclosing(model.stream(prompt("two: hang", one.session))) as stream:
            begun = await given.first(stream)
        why = await lost(model, one.session)
        return [begun, why, words(await asked(model, "three", one.session))]

    assert run(conversation, runs_on(form)) == ["begun", "", "3: one | two: hang | three"]


@FORMS
def test_one_that_does_not_heed_the_interrupt_is_ended(form: str) -> None:
    async def conversation(model: CommandLine) -> list[str]:
        one = await asked(model, "one")
        async with aclosing(model.stream(prompt("be stubborn", one.session))) as stream:
            begun = await given.first(stream)
        return [begun, await lost(model, one.session), words(await asked(model, "all of it"))]

    assert run(conversation, runs_on(form, patience=0.1)) == [
        "begun",
        f"{given.NAME} was ended by SIGKILL",
        "1: all of it",
    ]


def test_cancelling_twice_ends_the_process_at_once() -> None:
    async def conversation(model: CommandLine) -> str:
        one = await asked(model, "one")
        begun = asyncio.Event()

        async def listen() -> None:
            async with aclosing(model.stream(prompt("be stubborn", one.session))) as stream:
                async for piece in stream:
                    if isinstance(piece, ResponseDelta):
                        begun.set()

        task = asyncio.create_task(listen())
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        while not (why := await lost(model, one.session)):
            await asyncio.sleep(0.01)
        return why

    assert run(conversation, runs_on(patience=60)) == f"{given.NAME} was ended by SIGKILL"


def test_a_garbage_line_fails_the_turn_and_the_process_is_brought_back_to_its_senses() -> None:
    async def conversation(model: CommandLine) -> list[str]:
        one = await asked(model, "one")
        _, error = await failed(model, "garbage", one.session)
        return [error.category, words(await asked(model, "three", one.session))]

    assert run(conversation, runs_on("jsonl")) == ["invalid_response", "3: one | garbage | three"]


@FORMS
def test_a_flood_on_stderr_does_not_block_it(form: str) -> None:
    async def conversation(model: CommandLine) -> list[str]:
        one = await asked(model, "flood")
        return [words(one), words(await asked(model, "two", one.session))]

    assert run(conversation, runs_on(form)) == ["flooded", "2: flood | two"]


def test_what_is_said_between_two_turns_is_no_answer() -> None:
    async def conversation(model: CommandLine) -> str:
        one = await asked(model, "stray")
        await asyncio.sleep(0.05)
        return words(await asked(model, "two", one.session))

    assert run(conversation, runs_on()) == "2: stray | two"


def test_one_that_does_not_listen_any_more_is_lost() -> None:
    async def conversation(model: CommandLine) -> list[str]:
        one = await asked(model, "deaf")
        while model.is_alive("coder", "talk"):
            await asyncio.sleep(0.01)
        return [words(one), words(await asked(model, "all of it"))]

    assert run(conversation, runs_on()) == ["heard for the last time", "1: all of it"]


def test_a_line_in_the_prompt_that_looks_like_the_end_does_not_end_it() -> None:
    said = run(lambda model: asked(model, f"one\n{END}\ntwo"), runs_on())

    assert words(said) == f"1: one\n\\{END}\ntwo"


def test_a_request_of_5_mb_and_its_answer_pass() -> None:
    long = "word " * 1_000_000 + "."

    assert words(run(lambda model: asked(model, long), runs_on("jsonl"))) == f"1: {long}"


def test_of_too_many_the_one_that_was_silent_longest_is_ended() -> None:
    async def conversation(model: CommandLine) -> list[bool]:
        for lane in ("a", "b", "c"):
            await asked(model, "one", lane=lane)
        return [model.is_alive(lane, "talk") for lane in ("a", "b", "c")]

    assert run(conversation, runs_on(most=2)) == [False, True, True]


@pytest.mark.parametrize(("ping", "reason"), [("ping", ""), ("be mute", "did not answer 'be mute' in 0.1 s")])
def test_one_that_was_silent_for_long_is_asked_how_it_is(ping: str, reason: str) -> None:
    async def conversation(model: CommandLine) -> tuple[str, bool]:
        one = await asked(model, "one")
        return await lost(model, one.session), model.is_alive("coder", "talk")

    why, alive = run(
        conversation, runs_on(health=HealthCheck(ping, after=0.0, timeout=0.1 if reason else 10.0))
    )

    assert (reason in why, bool(why), alive) == (True, bool(reason), not reason)


@pytest.mark.parametrize("fate", ["killed", "mute"])
def test_one_that_dies_or_hangs_between_two_turns_is_started_again_without_a_request(
    fate: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def conversation(model: CommandLine) -> tuple[bool, str, str]:
        one = await asked(model, "one")
        before = model.pid("coder", "talk")
        assert before is not None
        if fate == "killed":
            os.kill(before, signal.SIGKILL)
        while model.pid("coder", "talk") in (None, before):
            await asyncio.sleep(0.02)
        fresh = model.pid("coder", "talk")
        why = await lost(model, one.session)
        answer = words(await asked(model, "all of it"))
        assert model.pid("coder", "talk") == fresh
        await model.close()
        return bool(why), answer, caplog.text

    ping, timeout = ("be mute", 0.1) if fate == "mute" else ("ping", 10.0)
    health = HealthCheck(ping, after=0.0 if fate == "mute" else 60.0, timeout=timeout, every=0.05)
    is_lost, answer, logged = run(conversation, runs_on(health=health))

    assert (is_lost, answer, "started again" in logged) == (True, "1: all of it", True)


def test_closing_ends_every_process_and_the_model_may_be_used_again() -> None:
    async def conversation(model: CommandLine) -> list[Any]:
        one = await asked(model, "one")
        await model.close()
        alive, why = model.is_alive("coder", "talk"), await lost(model, one.session)
        return [alive, why, words(await asked(model, "all of it"))]

    assert run(conversation, runs_on()) == [False, NOT_HERE, "1: all of it"]


ANOTHER_LOOP = """
import asyncio
import os
import signal
from tests.agents.given import asked, run, runs_on, words

model = runs_on()
one = asyncio.run(asked(model, "one"))  # and nobody closes the model
async def talk(model):
    print(await model.lost("coder", "talk", one.session))
    print(words(await asked(model, "all of it")))
run(talk, model)
"""


def test_a_process_of_an_event_loop_that_was_closed_over_it_is_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ANOTHER_LOOP], cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert done.stdout.splitlines() == [f"{given.NAME} does not listen or speak any more", "1: all of it"]


KILLED = """
import asyncio
import os
import signal
from tests.agents.given import asked, runs_on

async def main():
    model = runs_on()
    await asked(model, "one")
    print(*(home.who._process._pid for home in model._residents._homes.values()), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def test_when_this_program_is_killed_its_agents_end_by_themselves() -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED], cwd=ROOT, stdout=subprocess.PIPE) as ours:
        assert ours.stdout is not None
        agent = int(ours.stdout.readline())
        alive = given.is_running(agent)
        ours.kill()

    assert (alive, given.gone(agent)) == (True, True)


def test_two_requests_of_one_lane_take_turns() -> None:
    async def conversation(model: CommandLine) -> list[str]:
        one = await asked(model, "one")
        both = await asyncio.gather(*(asked(model, text, one.session) for text in ("two", "three")))
        return [words(answer) for answer in both]

    assert run(conversation, runs_on()) == ["2: one | two", "3: one | two | three"]


def test_a_hundred_turns_and_deaths_leave_no_file_task_or_process_behind() -> None:
    async def conversation(model: CommandLine) -> list[int]:
        before = given.descriptors()
        for number in range(10):
            lane = f"lane {number}"
            session = (await asked(model, "one", lane=lane)).session
            for _ in range(8):
                await pieces(model, "more", session, lane=lane)
            await failed(model, "die", session, lane=lane)
        return [given.descriptors() - before, len(asyncio.all_tasks())]

    assert run(conversation, runs_on()) == [0, 1]


UNMARKED = "import sys\nfor line in sys.stdin:\n    print('heard', line.strip(), flush=True)"
"""A program that answers each line, and never says that it has answered."""


def test_silence_ends_the_answers_of_a_program_that_marks_no_end() -> None:
    async def conversation(model: CommandLine) -> list[str]:
        one = await asked(model, "one")
        return [words(one), words(await asked(model, "two", one.session))]

    model = CommandLine([*given.PYTHON, "-c", UNMARKED], mode="long-lived", idle_ends=0.2)
    assert run(conversation, model) == ["heard one", "heard two"]


def test_a_program_that_does_not_end_its_answer_is_said_to_be_waited_for_with_what_can_be_set(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_line, "SILENT", 0.05)

    async def conversation(model: CommandLine) -> None:
        stream = model.stream(prompt("one"))
        async with aclosing(stream):
            async for _ in stream:
                if caplog.messages:
                    return

    late = UNMARKED.replace("print(", "time.sleep(0.2); print(").replace("import", "import time,")
    run(conversation, CommandLine([*given.PYTHON, "-c", f"print('I')\n{late}"], mode="long-lived"))
    [said] = caplog.messages
    assert f"{given.NAME} has not ended its answer with the line {END}: set end=" in said


@pytest.mark.parametrize(
    "options", [{"idle_ends": 0}, {"mode": "one-shot", "idle_ends": 1}, {"format": "jsonl", "idle_ends": 1}]
)
def test_silence_ends_no_answer_that_ends_by_itself(options: dict[str, Any]) -> None:
    with pytest.raises(CallerError, match="idle_ends: expected "):
        CommandLine("echo", **{"mode": "long-lived", **options})
