"""Claude Code, Codex and an ACP agent from npm, with a provider on loopback.

What they do is in the log, their groups end with the engine, nothing is done twice, each token counts once.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import stenolog
from stenolog import AssistantMessage, Entry, LlmError
from stenolog.adapters.agents import groups
from stenolog.adapters.conversation.log import Conversation
from stenolog.domain.parts import ProviderPart
from stenolog.domain.values import Usage
from stenolog.engine import Agent, EntryAppended, RetryPolicy, Team
from stenolog.models import Model
from tests.agents import given, real
from tests.agents.provider import CACHED, INPUT, OUTPUT, Provider
from tests.agents.real import AGENTS, TIMES

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
ONE, TWO = "RUN «echo one >> acts»", "RUN «echo two >> acts»"
NO_RETRIES = RetryPolicy(attempts={})


@pytest.fixture(scope="module", autouse=True)
def programs() -> Path:
    return real.installed()


async def said(
    model: Model, conversation: Conversation, *texts: str, retries: RetryPolicy = NO_RETRIES
) -> list[Entry]:
    """Return the entries appended while the agent answers each text."""
    async with Team([Agent("dev", llm=model, persona="You are Dev.", retries=retries)]) as team:
        happened = [each for text in texts or (None,) async for each in team.run(conversation, text)]
    return [each.entry for each in happened if isinstance(each, EntryAppended)]


def ends(conversation: Conversation) -> list[AssistantMessage | LlmError]:
    events = (entry.event for entry in conversation.entries())
    return [event for event in events if isinstance(event, AssistantMessage | LlmError)]


def acts(event: AssistantMessage | LlmError) -> str:
    """Return all actions that the agent did by itself."""
    return "\n".join(part.raw for part in event.parts if isinstance(part, ProviderPart))


def used(calls: int) -> Usage:
    """Return the usage of so many calls."""
    return Usage(input=calls * (INPUT + CACHED), output=calls * OUTPUT, cache_read=calls * CACHED)


def tokens(event: AssistantMessage | LlmError) -> Usage | None:
    return None if event.usage is None else replace(event.usage, cost=None)


def done(tmp_path: Path) -> list[str]:
    """Return the effects that the commands had."""
    return (tmp_path / "home" / "work" / "acts").read_text().split()


def prompts(provider: Provider) -> str:
    """Return the texts of users in the last request."""
    from tests.agents.provider import texts_of_users

    return "\n".join(texts_of_users(provider.bodies[-1]))


@pytest.mark.parametrize("agent", AGENTS)
def test_turns_with_tools_tell_what_is_new_once_and_count_each_token_once(
    agent: str, provider: Provider, conversation: Conversation, tmp_path: Path
) -> None:
    model = real.model(agent, tmp_path / "home", provider.url)

    asyncio.run(said(model, conversation, f"{ONE} {TWO}", "RUN «echo three >> acts»", "Hello"))

    answers = ends(conversation)
    assert [(answer.kind, answer.text) for answer in answers] == [("assistant_message", "done")] * 3
    assert [word in acts(answers[0]) for word in ("echo one", "echo two")] == [True, True]
    assert [tokens(answer) for answer in answers] == [used(3), used(2), used(1)]
    assert done(tmp_path) == ["one", "two", "three"]
    told = prompts(provider)
    assert [told.count(words) for words in ("You are Dev.", "echo one", "Hello")] == [1, 1, 1]
    costs = [answer.usage.cost for answer in answers if answer.usage]
    assert agent == "codex" or all(costs), costs


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("how", ["killed", "cancelled", "timeout"])
async def test_a_turn_that_is_broken_off_keeps_what_was_done_and_it_is_not_done_again(
    how: str, agent: str, provider: Provider, conversation: Conversation, tmp_path: Path
) -> None:
    times = replace(TIMES, idle=4.0) if how == "timeout" else TIMES
    model = real.model(agent, tmp_path / "home", provider.url, timeouts=times)

    async with Team([Agent("dev", llm=model, retries=RetryPolicy(base=0.1))]) as team:
        running = asyncio.create_task(_run(team, conversation, f"{ONE} STALL «{how}»"))
        await asyncio.to_thread(provider.stalled.wait, 60)
        await asyncio.sleep(0.5)
        if how == "killed":
            for pid in groups_of_ours():
                os.killpg(pid, signal.SIGKILL)
        if how == "cancelled":
            await team.cancel(conversation)
        await running
        if how == "cancelled":
            await _run(team, conversation, "Go on.")

    first, *_, last = ends(conversation)
    category = {"killed": "process_exited", "cancelled": "cancelled", "timeout": "timeout"}[how]
    assert isinstance(first, LlmError)
    assert (first.category, "echo one" in acts(first), bool(first.session)) == (category, True, True)
    assert (last.kind, last.text, done(tmp_path)) == ("assistant_message", "done", ["one"])
    assert agent not in ("claude", "claude-long") or (first.usage and first.usage.output >= OUTPUT)


async def _run(team: Team, conversation: Conversation, text: str) -> None:
    async for _ in team.run(conversation, text):
        pass


def groups_of_ours() -> list[int]:
    """Return the process groups of the agents at work here."""
    return [int(group.partition(":")[0]) for group in groups.WATCHER.watched]


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_whose_session_is_gone_is_told_everything_anew(
    agent: str, provider: Provider, conversation: Conversation, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    asyncio.run(said(real.model(agent, home, provider.url), conversation, "I am Ann."))
    for folder in (home / ".claude" / "projects", home / ".codex" / "sessions"):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (home / ".codex").glob("*.sqlite*"):
        file.unlink()

    model = real.model(agent, home, provider.url)
    asyncio.run(said(model, conversation, "Who am I?", retries=RetryPolicy(base=0.1)))

    assert [end.kind for end in ends(conversation)][-1] == "assistant_message"
    assert ["I am Ann." in prompts(provider), "Who am I?" in prompts(provider)] == [True, True]


def test_claude_code_at_its_limit_of_turns_keeps_what_it_did_its_session_and_its_usage(
    provider: Provider, conversation: Conversation, tmp_path: Path
) -> None:
    model = real.model("claude", tmp_path / "home", provider.url, more=["--max-turns", "1"])

    asyncio.run(said(model, conversation, f"{ONE} {TWO}"))

    (error,) = ends(conversation)
    assert isinstance(error, LlmError)
    assert ("max turns" in error.message, "echo one" in acts(error)) == (True, True)
    assert (bool(error.session), tokens(error)) == (True, used(1))


def test_an_agent_that_works_without_a_word_is_alive(
    provider: Provider, conversation: Conversation, tmp_path: Path
) -> None:
    times = replace(TIMES, idle=4.0)
    model = real.model("codex", tmp_path / "home", provider.url, timeouts=times)
    steps = " ".join(f"RUN «sleep 2; echo {nth} >> acts»" for nth in range(4))

    asyncio.run(said(model, conversation, steps, retries=RetryPolicy(base=0.1)))

    assert [end.kind for end in ends(conversation)] == ["assistant_message"]
    assert done(tmp_path) == ["0", "1", "2", "3"]


ENGINE = """
import asyncio, sys
from pathlib import Path
import stenolog
from stenolog.engine import Agent, RetryPolicy, Team
from tests.agents import real

async def main(agent, home, url, *text):
    dev = Agent("dev", llm=real.model(agent, Path(home), url), retries=RetryPolicy(base=0.1))
    with stenolog.open(Path(home) / "talks.db") as log:
        async with Team([dev]) as team:
            async for _ in team.run(log["talk"], *text):
                pass
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("agent", AGENTS)
def test_when_the_engine_is_killed_its_agent_ends_and_what_it_did_is_not_done_again(
    agent: str, provider: Provider, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-c", ENGINE, agent, str(home), provider.url]
    pid = home / "work" / "pid"
    work = f"{ONE} RUN «echo $$ > pid; sleep 60; echo late >> acts»"
    with subprocess.Popen([*command, work], cwd=ROOT) as engine:
        while not (pid.exists() and pid.read_text().strip()):
            assert engine.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        engine.kill()
    shell = int(pid.read_text())

    assert given.gone(shell)

    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    with stenolog.open(home / "talks.db") as log:
        first, *_, last = ends(log["talk"])
    assert isinstance(first, LlmError)
    assert (first.category, "echo one" in acts(first), bool(first.session)) == ("process_exited", True, True)
    assert (last.kind, last.text, done(tmp_path)) == ("assistant_message", "done", ["one"])
