"""An agent asks its own history: it is told what it may see, and has the facts that a compaction took."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Conversation, ModeSwitch, Team, ToolCall, UserMessage
from stenolog.adapters.conversation.queries.visibility import visible_to
from stenolog.adapters.tools.execute import execute
from stenolog.adapters.tools.functions import opened
from stenolog.apps.serve.own_history import OwnHistory
from stenolog.domain.values import PositionRange
from stenolog.errors import InvalidEventError, PositionNotFoundError, StenologError
from stenolog.models import Scripted
from stenolog.tools import MCPServer
from tests.command_line import run
from tests.forked import python
from tests.outputs.test_who_may_read import AGENTS, random_talk
from tests.random_cases import seeds
from tests.tools.given import call, text

FACTS = 20
KEPT = 3
"""The facts that the summary keeps."""
WORD = re.compile(r"(?:question|result|answer|edit|sum)\d+x")


def changed(talk: Conversation, random: Random) -> None:
    """Let summaries, edits and rewinds follow a talk, each with a word of its own."""
    for nth in range(random.randrange(4)):
        first = random.randrange(2, talk.position)
        span = PositionRange(first=first, last=random.randrange(first, talk.position + 1))
        agent = random.choice(AGENTS)
        event: Any = random.choice(
            (
                AssistantMessage(agent=agent, purpose="summary", covers=[span], text=f"sum{nth}x"),
                AssistantMessage(agent=agent, purpose="memory", text=f"sum{nth}x"),
                UserMessage(f"edit{nth}x", replaces=first),
                ModeSwitch(hides=[span]),
            )
        )
        with suppress(InvalidEventError):
            talk.append(event, expected=talk.position)


def answers(history: OwnHistory, entries: Sequence[int]) -> Iterator[str]:
    """Yield a history's answers to questions of all kinds about some entries."""
    words = " OR ".join(
        f"{kind}{nth}x" for nth in range(12) for kind in ("question", "answer", "sum", "edit")
    )
    each_entry = (history.read, history.why, history.request, history.compaction)
    asked: list[partial[str]] = [
        partial(history.search, words, 100),
        partial(history.request),
        partial(history.compaction),
    ]
    asked += [partial(ask, at) for at in entries for ask in each_entry]
    asked += [partial(history.request, at, nth) for at in entries for nth in range(3)]
    for each in asked:
        try:
            yield each()
        except StenologError as error:
            yield str(error)


@seeds(5, slow=60, nightly=300)
def test_no_answer_has_words_that_the_agent_may_not_see(seeds: range) -> None:
    found = 0
    with stenolog.open(":memory:") as log:
        for nth in seeds:
            random, talk = Random(nth), log[f"talk{nth}"]
            random_talk(talk, random)
            changed(talk, random)
            for agent in AGENTS:
                may_see = visible_to(talk, agent)
                own = {word for entry in talk if may_see(entry) for word in WORD.findall(repr(entry.event))}
                history = OwnHistory(partial(log.__getitem__, talk.name), agent)
                some = random.sample(range(1, len(talk) + 1), 6)
                told = WORD.findall("\n".join(answers(history, some)))
                found += len(told)
                assert {*told} <= own, (nth, agent)
    assert found > 50 * len(seeds)


@pytest.fixture
def bakery(tmp_path: Path) -> Path:
    """Return a log in which a compaction has covered 20 facts, and its summary keeps three."""
    path = tmp_path / "talks.db"
    with stenolog.open(path) as log:
        talk = log["bread"]
        talk.join("baker")
        for nth in range(1, FACTS + 1):
            talk.append(UserMessage(f"The code of oven {nth} is {code(nth)}."))
            talk.append(AssistantMessage(agent="baker", text=f"Noted for number {nth}."))
        short = " ".join(f"Oven {nth}: {code(nth)}." for nth in range(1, KEPT + 1))
        span = PositionRange(first=2, last=talk.position)
        talk.append(AssistantMessage(agent="baker", purpose="summary", covers=[span], text=short))
    return path


def code(nth: int) -> str:
    return f"K{nth * 7919 % 10_000:04}"


def script(request: Any) -> Any:
    """Answer from the request if the fact is in it, else ask the history once, else give up."""
    text = json.dumps(request.body)
    nth = re.findall(r"code of oven (\d+)\?", text)[-1]
    if known := re.search(rf"[Oo]ven {nth}(?: is|:) (K\d+)", text):
        return f"It is {known[1]}."
    if '"search"' in text and f's{nth}"' not in text:
        return ToolCall(id=f"s{nth}", name="search", arguments=json.dumps({"words": f'"oven {nth} is"'}))
    return "I do not know."


@pytest.mark.parametrize(("with_history", "answered"), [(True, FACTS), (False, KEPT)])
def test_of_20_facts_that_a_compaction_took_an_agent_that_asks_its_history_knows_all(
    bakery: Path, with_history: bool, answered: int
) -> None:
    command = python(
        *("-m", "stenolog", "serve", "--mcp", "--db", str(bakery)),
        *("--conversation", "bread", "--agent", "baker"),
    )
    tools = [MCPServer.stdio(command, env=dict(os.environ))] if with_history else []

    async def ask(talk: Conversation) -> int:
        team = Team([Agent("baker", llm=Scripted(script, endless=True), tools=tools)])
        for nth in range(1, FACTS + 1):
            await team.ask(talk, f"What is the code of oven {nth}?")
        for each in tools:
            await each.close()
        told = [entry.event.text for entry in talk if isinstance(entry.event, AssistantMessage)]
        return sum(f"It is {code(nth)}." in told for nth in range(1, FACTS + 1))

    with stenolog.open(bakery) as log:
        assert asyncio.run(ask(log["bread"])) == answered


def test_a_server_without_a_name_answers_from_its_folder_alone(tmp_path: Path) -> None:
    path = tmp_path / "talks.db"
    server = MCPServer.stdio(
        python("-m", "stenolog", "serve", "--mcp", "--db", str(path)), env=dict(os.environ)
    )
    here, past = str(Path.cwd()), datetime(2026, 1, 1, tzinfo=UTC)

    def talk(name: str, folder: str, time: datetime | None = None) -> None:
        with stenolog.open(path) as log:
            log[name].append(ModeSwitch(meta={"claude-code": {"cwd": folder}}), time=time)
            log[name].append(UserMessage(f"Bake {name}.", to=["baker"]), time=time)
            log[name].fork()

    async def ask() -> list[Any]:
        tools, found = await opened([server]), []
        for name, folder, time in (
            ("old", here, past),
            ("older", here, past),
            ("other", "/elsewhere", None),
            ("bread", here, None),
            ("cake", here, None),
        ):
            talk(name, folder, time)
            if name != "old":
                found.append(await execute(tools["search"], call("search", {"words": "bake"}), [*tools]))
        await server.close()
        return found

    talk("elsewhere", "/elsewhere")
    *none, bread, after = asyncio.run(ask())

    assert all(each.is_error and "--conversation NAME" in text(each) for each in none)
    assert all(name in text(each) for each in none for name in ("old", "older"))
    assert ["Bake bread." in text(each) for each in (bread, after)] == [True, True]  # it stays with one


def test_a_server_for_an_agent_makes_no_database(tmp_path: Path) -> None:
    path = tmp_path / "typo.db"

    assert run(["serve", "--mcp", "--db", str(path)]) == 3
    assert not any(tmp_path.iterdir())


def test_an_agent_is_told_that_a_request_is_not_as_it_was_sent(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        talk = log["bread"]
        for words in ("Rye.", "The code is 7421."):
            talk.append(UserMessage(words))
        talk.append(AssistantMessage(agent="baker", text="Noted."))
        history = OwnHistory(lambda: talk)
        as_sent = history.request()
        talk.erase(talk.position - 1)
        head, gone, *rest = history.request().splitlines()
        talk.append(UserMessage("And now?"))
        talk.append(AssistantMessage(agent="baker", text="Rye."))

        assert as_sent.splitlines()[0] == head.partition(",")[0]
        assert head.endswith("not as sent: the words of entries 3 are gone")
        assert gone == "left out, entries 3 (erased)"
        assert [line.rpartition(" ")[2] for line in rest] == ["Rye."]
        assert "not as sent" not in history.request()


def test_an_agent_is_told_what_it_was_sent_what_is_gone_and_why(bakery: Path) -> None:
    with stenolog.open(bakery) as log:
        history = OwnHistory(lambda: log["bread"])

        gone = history.compaction()
        assert gone.splitlines()[0].startswith("summary at entry 42 (compactions at 42)")
        assert len(gone.splitlines()) == 1 + 2 * FACTS
        assert "38: only in the summary: user: The code of oven 19 is K0461." in gone
        assert history.read(38, limit=15).startswith("The code of ove\n[characters 0 to 15 of 29; go on with")
        assert "code of oven 19 is" in history.request(39).splitlines()[-1]
        assert history.request(39, 1) == history.request(39, 1)
        why = history.why(38).splitlines()
        assert why[0].startswith("your requests at entries 38-40: kept as message 37, sent for 2 answers")
        assert "covered" in why[-1]
        with pytest.raises(PositionNotFoundError, match="expected an entry that you may see, found 99"):
            history.read(99)
        with pytest.raises(InvalidEventError, match="expected a message from 0 to"):
            history.request(39, 99)
