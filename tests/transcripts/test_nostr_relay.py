"""A team on a relay: what is said there is answered, and nothing is there twice, on either side."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import Agent, AssistantMessage, Log, Team, UserMessage
from stenolog.chats import CHANNELS
from stenolog.contrib.nostr.converter import Nostr
from stenolog.contrib.nostr.events import event_of
from stenolog.contrib.nostr.incoming import Incoming
from stenolog.contrib.nostr.outgoing import signers
from stenolog.contrib.nostr.service import NostrRelay
from stenolog.errors import CallerError
from stenolog.importers import Step
from stenolog.models import ModelRequest, Scripted
from tests.transcripts.relay_server import RunningRelay, running
from tests.transcripts.signing import event, key, profile, signed

ROOT = event("ann", "Build it, @coder.", kind=11, to="coder")
NAMES = ("coder", "planner")
KEYS = {name: sha256(name.encode()).hexdigest() for name in NAMES}
PEOPLE = [key("ann")]


@pytest.fixture
def relay() -> Iterator[RunningRelay]:
    with running() as made:
        made.put(profile("ann"))
        yield made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with stenolog.open(tmp_path / "t.db") as opened:
        yield opened


def echo(prompt: ModelRequest) -> str:
    return f"{prompt.lane} has heard: {prompt.body['messages'][-1]['content']}"


def team(answer: Callable[[ModelRequest], Any] = echo) -> Team:
    return Team([Agent(name, Scripted(answer, endless=True)) for name in NAMES])


@asynccontextmanager
async def serving(log: Log, relay: RunningRelay, **options: Any) -> Any:
    given = {"keys": KEYS, "people": PEOPLE, "backoff": lambda failures: 0.02, **options}
    serve = asyncio.create_task(NostrRelay(team(), log, relay=relay.url, **given).serve())
    try:
        yield serve
    finally:
        serve.cancel()
        with suppress(asyncio.CancelledError):
            await serve


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.02)


def on(relay: RunningRelay, who: str) -> list[str]:
    """Return what somebody has said on the relay."""
    return [e["content"] for e in relay.events if e["pubkey"] == key(who) and e["kind"] != 0]


def said(log: Log, name: str = ROOT["id"]) -> list[str]:
    """Return what the log has, with its author."""
    words = [entry.event for entry in log[name].entries()]
    return [
        f"{e.agent if isinstance(e, AssistantMessage) else e.author}: {e.text}"
        for e in words
        if isinstance(e, UserMessage | AssistantMessage)
    ]


HEARD = "coder has heard: Build it, @coder."


async def test_what_names_an_agents_key_is_answered_there_under_the_agents_own_key(
    log: Log, relay: RunningRelay
) -> None:
    async with serving(log, relay):
        relay.put(ROOT)
        await until(lambda: on(relay, "coder"))

    answer = relay.events[-1]
    assert (answer["pubkey"], answer["content"]) == (key("coder"), HEARD)
    assert ["E", ROOT["id"]] in answer["tags"]
    assert ["p", key("ann")] in answer["tags"]
    assert said(log) == [": Build it, @coder.", f"coder: {HEARD}"]


async def test_own_events_that_come_back_are_not_appended_and_nothing_is_sent_twice(
    log: Log, relay: RunningRelay
) -> None:
    again = event("ann", "And now?", at=60, under=ROOT["id"], to="coder")

    async with serving(log, relay):
        relay.put(ROOT)
        await until(lambda: on(relay, "coder"))
    for nth in range(3):  # each start is told by the relay all that it has
        async with serving(log, relay):
            await until(lambda: log[ROOT["id"]].position)
            relay.put(event("ann", f"More {nth}.", at=9 + nth, under=ROOT["id"], to="planner"))
            await until(lambda: len(on(relay, "planner")) == nth + 1)  # noqa: B023
    async with serving(log, relay):
        await until(lambda: relay.relay.connections)
        await asyncio.to_thread(relay.drop_all)
        relay.put(again)
        await until(lambda: len(on(relay, "coder")) == 2)

    assert len(said(log)) == len({*said(log)}) == 10
    assert sorted(relay.relay.received) == sorted({*relay.relay.received})
    assert len(relay.relay.received) == 5 + 2  # and the agents' profiles


async def test_an_agent_elsewhere_that_asks_one_here_is_heard_as_an_agent(
    log: Log, relay: RunningRelay
) -> None:
    relay.put(profile("reviewer", ["bot"]), ROOT)

    async with serving(log, relay, people=[*PEOPLE, key("reviewer")]):
        await until(lambda: on(relay, "coder"))
        mine = next(e for e in relay.events if e["pubkey"] == key("coder") and e["kind"] != 0)
        asks = [["E", ROOT["id"]], ["e", mine["id"]], ["p", key("planner")]]
        made = [0, key("reviewer"), ROOT["created_at"] + 9, 1111, asks, "Plan it anew."]
        relay.put(signed("reviewer", made))
        await until(lambda: on(relay, "planner"))

    (asked,) = [e for e in log[ROOT["id"]] if getattr(e.event, "agent", "") == "reviewer"]
    assert isinstance(asked.event, AssistantMessage)
    assert (asked.event.to, asked.event.text) == (("planner",), "Plan it anew.")
    assert log[ROOT["id"]].entry(asked.event.cause or 0).event.text == HEARD  # type: ignore[union-attr]
    assert "reviewer" in on(relay, "planner")[0]


async def test_an_agent_without_a_profile_gets_one_and_another_keeps_its_own(
    log: Log, relay: RunningRelay
) -> None:
    relay.put(profile("planner", name="Paula"))

    for _ in range(2):
        async with serving(log, relay):
            await until(lambda: any(e["pubkey"] == key("coder") for e in relay.events))

    profiles = [(e["pubkey"], json.loads(e["content"])) for e in relay.events if e["kind"] == 0]
    assert profiles[1:] == [
        (key("planner"), {"name": "Paula"}),
        (key("coder"), {"name": "coder", "bot": True}),
    ]


async def test_strangers_and_forged_events_are_not_heard_and_leave_no_trace(
    log: Log, relay: RunningRelay
) -> None:
    stranger = event("eve", "Tell me all.", at=1, under=ROOT["id"], to="coder")
    forged = {**event("ann", "Delete it.", at=2, under=ROOT["id"], to="coder"), "content": "Delete all."}
    unsigned = {**event("ann", "Sell it.", at=3, under=ROOT["id"], to="coder"), "sig": ROOT["sig"]}
    for bad in (forged, unsigned):
        relay.relay.keep(bad)

    async with serving(log, relay):
        relay.put(stranger, ROOT)
        await until(lambda: on(relay, "coder"))

    assert said(log) == [": Build it, @coder.", f"coder: {HEARD}"]
    assert log.names() == [ROOT["id"]]


async def test_a_reply_without_its_root_brings_the_conversation_along(log: Log, relay: RunningRelay) -> None:
    begun = event("ann", "The menu.", kind=11)
    relay.put(begun)

    async with serving(log, relay):
        relay.put(event("ann", "What is this, @planner?", at=5, under=begun["id"], to="planner"))
        await until(lambda: on(relay, "planner"))

    assert said(log, begun["id"])[:2] == [": The menu.", ": What is this, @planner?"]


async def test_a_conversation_of_the_log_goes_to_the_relay_and_goes_on_there(
    log: Log, relay: RunningRelay
) -> None:
    log["here"].extend(
        [UserMessage(text="Build it.", to=["coder"]), AssistantMessage(agent="coder", text="Built.", cause=2)]
    )
    keys = {**KEYS, "user": sha256(b"ann").hexdigest()}

    async with serving(log, relay, keys=keys, conversations="here"):
        await until(lambda: on(relay, "coder"))
        (root,) = [e for e in relay.events if e["kind"] == 11]
        relay.put(event("ann", "Paint it.", at=10**8, under=root["id"], to="coder"))
        await until(lambda: len(on(relay, "coder")) == 2)

    assert on(relay, "ann") == ["Build it.", "Paint it."]
    assert [line.partition(":")[0] for line in said(log, "here")] == ["", "coder", "", "coder"]
    assert log.names() == ["here"]


async def test_erased_words_of_an_agent_do_not_come_back_from_the_relay(
    log: Log, relay: RunningRelay
) -> None:
    async with serving(log, relay):
        relay.put(ROOT)
        await until(lambda: on(relay, "coder"))
    talk = log[ROOT["id"]]
    talk.erase(talk.position, reason="private")
    async with serving(log, relay):
        relay.put(event("ann", "Go on.", at=60, under=ROOT["id"], to="planner"))
        await until(lambda: on(relay, "planner"))

    assert HEARD not in str(said(log))


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_a_conversation_that_is_deleted_stays_away_and_one_that_is_renamed_goes_on(
    log: Log, relay: RunningRelay, meanwhile: bool
) -> None:
    other = event("ann", "The menu, @planner.", kind=11, at=1, to="planner")

    async with AsyncExitStack() as served:
        await served.enter_async_context(serving(log, relay))
        relay.put(ROOT, other)
        await until(lambda: on(relay, "coder") and on(relay, "planner"))
        if not meanwhile:
            await served.aclose()
        log[ROOT["id"]].delete()
        log[other["id"]].rename("menu")
        if not meanwhile:
            await served.enter_async_context(serving(log, relay))
        relay.put(event("ann", "Go on.", at=60, under=other["id"], to="planner"))
        relay.put(event("ann", "And you?", at=61, under=ROOT["id"], to="coder"))
        await until(lambda: len(on(relay, "planner")) == 2)

    assert log.names() == ["menu"]
    assert len(said(log, "menu")) == 4
    assert len(on(relay, "coder")) == 1


async def test_two_instances_on_one_log_answer_each_message_once(log: Log, relay: RunningRelay) -> None:
    asked = [event("ann", f"More {n}.", at=n, under=ROOT["id"], to=NAMES[n % 2]) for n in range(1, 7)]

    with stenolog.open(log.path) as other:
        async with serving(log, relay), serving(other, relay):
            relay.put(ROOT)
            for nth, each in enumerate(asked, start=2):
                relay.put(each)
                await until(lambda: len(on(relay, "coder") + on(relay, "planner")) == nth)  # noqa: B023

    causes = [entry.event.cause for entry in log[ROOT["id"]] if isinstance(entry.event, AssistantMessage)]
    assert len(causes) == len({*causes}) == 7
    assert len(said(log)) == 14


async def test_an_answer_is_sent_again_until_the_relay_takes_it(log: Log, relay: RunningRelay) -> None:
    async with serving(log, relay):
        relay.relay.refuses = "rate-limited: slow down"
        relay.put(ROOT)
        await until(lambda: len(relay.relay.received) > 5)
        await asyncio.to_thread(relay.drop_all)
        relay.relay.refuses = ""
        await until(lambda: on(relay, "coder"))

    assert on(relay, "coder") == [HEARD]


async def test_an_event_that_the_relay_refuses_is_told_and_the_next_one_goes(
    log: Log, relay: RunningRelay, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with serving(log, relay):
            relay.relay.refuses = "blocked: not today"
            relay.put(ROOT)
            await until(lambda: "refuses event" in caplog.text)
            relay.relay.refuses = ""
            relay.put(event("ann", "More.", at=9, under=ROOT["id"], to="planner"))
            await until(lambda: on(relay, "planner"))

    assert on(relay, "coder") == []


def test_an_event_that_comes_while_the_team_writes_stands_behind_that(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    incoming = Incoming(log, "relay", signers(KEYS))
    incoming.add(event_of(ROOT))
    incoming.append()

    class Meanwhile(Nostr):
        """Converts as ever, while the team's answer is written, once."""

        def end(self) -> list[Step]:
            log[ROOT["id"]].append(AssistantMessage(agent="coder", text="Built."), id="once")
            return super().end()

    monkeypatch.setattr("stenolog.contrib.nostr.incoming.Nostr", Meanwhile)
    incoming.add(event_of(event("ann", "More.", at=9, under=ROOT["id"], to="coder")))
    incoming.append()

    assert said(log) == [": Build it, @coder.", "coder: Built.", ": More."]


def test_options_that_cannot_be_meant_are_refused(log: Log) -> None:
    make: Any = CHANNELS["nostr"]
    good = {"relay": "wss://relay.example", "keys": KEYS, "people": PEOPLE}
    for wrong, words in (
        ({"relay": "https://x"}, "relay: expected an address such as wss"),
        ({"keys": {"bob": KEYS["coder"]}}, "keys: expected those of agents of the team"),
        ({"keys": "missing.json"}, "keys: missing.json: "),
        ({"people": ["ann"]}, "expected a public key"),
        ({"conversations": ["none"]}, "conversations: 'none': no such conversation"),
    ):
        with pytest.raises(CallerError, match=words):
            make(team(), log, **{**good, **wrong})
