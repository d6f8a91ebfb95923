"""Sessions of the corpus: loops of agents with everything that programs do to their histories, by a seed.

A play is one session of one program. Whatever it does is drawn from its own random numbers, so that a corpus
is the same each time but for the order in which parallel sessions meet.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from hashlib import sha256
from random import Random

from tests.tap.answered import Answered, Call, answered
from tests.tap.dialogues import Claude, Dialogue, Json, result_of, tool
from tests.tap.profiles import HEADERS, KEY, PROFILES, Ids, Profile, uuid
from tests.tap.raw_client import Label, Observer, Options, RawClient, Sent
from tests.tap.reading import prose
from tests.tap.serialisers import STYLES

ATTEMPTS = 4
PLAIN = Options()
RESULT_WORDS = (12, 40, 120, 400, 1500)
"""Lengths of results of tools: small ones, and files."""
TITLE = "Generate a short title for this conversation. Answer with the title alone."
SUMMARY = (
    "Your task is to create a detailed summary of the conversation so far. SUMMARISE it for whoever goes on."
)
FEATURES = (
    *("plain",) * 4, *("errors",) * 2, *("agents",) * 2, "cuts", "tools", "system", "pictures", "compaction",
    "cleared", "rewind", "fork", "hangup", "thinking", "codings", "count",
)  # fmt: skip
"""What sessions do beside asking and running tools, each as often as it is here."""


@dataclass
class Play:
    """A session to come: its program, so many requests, and the feature that it shows."""

    name: str
    profile: Profile
    requests: int
    feature: str
    has_ids: bool
    twin: str = ""

    @property
    def seed(self) -> str:
        """The seed of its words: twins have the same."""
        return sha256((self.twin or self.name).encode()).hexdigest()


@dataclass
class Stage:
    """A play on its way: its clients, its random numbers, and the ids that its program sends."""

    play: Play
    url: str
    open: list[RawClient] = field(default_factory=list)
    log: list[Sent] = field(default_factory=list)
    observer: Observer | None = None
    requests: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.play.seed)
        self.session = uuid(Random(self.play.name))

    def client(self) -> RawClient:
        """Return a connection of its own."""
        built = RawClient(self.url, self.log, self.play.profile.upstream, self.observer)
        self.open.append(built)
        return built


class Actor:
    """An agent of a session: its dialogue, its lane, and the connection that it speaks over."""

    def __init__(self, scene: Stage, dialogue: Dialogue, label: Label) -> None:
        self.scene, self.dialogue, self.label = scene, dialogue, label
        self.client = scene.client()
        self._turn = 0

    @property
    def _profile(self) -> Profile:
        return self.scene.play.profile

    async def ask(self, options: Options = PLAIN, kind: str = "") -> Answered:
        """Send the next request, again after a fault, and take the answer."""
        answer = Answered()
        for _ in range(ATTEMPTS):
            sent = await self._send(options, kind)
            if sent.status == 200:
                answer = answered(self.dialogue.api, sent.decoded)
            if sent.complete and sent.status == 200 and answer.complete:
                break
            if options.hangs_up_after:
                return answer
        self.dialogue.take(answer)
        return answer

    async def _send(self, options: Options, kind: str) -> Sent:
        profile, play = self._profile, self.scene.play
        body = self.dialogue.body()
        agent = "" if self.label.lane in ("main", "title") else self.label.lane
        ids = Ids(self.scene.session, agent, f"turn-{self._turn}")
        headers = [("content-type", "application/json"), ("User-Agent", profile.agent)]
        headers += [*HEADERS.get(profile.name, KEY).items()]
        if play.has_ids:
            headers += [*profile.stamp(body, ids).items()]
        style = STYLES["twice" if play.feature == "odd" else profile.style]
        if play.feature == "codings" and not options.coding:
            turn = self.scene.requests % 4
            options = replace(options, coding=("", "gzip", "zstd", "")[turn], chunked=turn == 3)
            options = replace(options, expects=turn == 2, closes=turn == 0)
        self.scene.requests += 1
        label, path = self.label._replace(kind=kind), self.dialogue.path
        sent = await self.client.post(path, headers, style(body), label, profile.name, options)
        sent.answer_id = answered(self.dialogue.api, sent.decoded).id if sent.status == 200 else ""
        return sent

    async def turn(self, calls: int, phrase: str = "") -> int:
        """Ask, and run tools until the answer calls none; return the number of requests."""
        picture = self.scene.play.feature == "pictures" and self._turn % 2 == 1
        self.dialogue.say(self.next_words(calls, phrase), picture)
        self._turn += 1
        return await self.run()

    def next_words(self, calls: int, phrase: str) -> str:
        """Return what the user says in the next turn."""
        seed = f"{self.scene.play.seed}/{self.label.lane}/{self._turn}"
        return f"{phrase}{prose(seed, 14)} LOOP «{calls}» LONG «{(8, 20, 60)[self._turn % 3]}»"

    async def run(self) -> int:
        """Go on until an answer calls nothing."""
        number = 0
        while True:
            answer = await self.ask()
            number += 1
            if not answer.calls:
                return number
            results = [(call, await self._result(call)) for call in answer.calls]
            self.dialogue.results(results)

    async def _result(self, call: Call) -> str:
        return result_of(call, self.scene.play.seed, self.scene.random.choice(RESULT_WORDS))


async def perform(scene: Stage) -> None:
    """Play a session to its end."""
    play = scene.play
    dialogue = play.profile.begin(scene.random, play.seed)
    label = Label(play.name, "main", "", play.feature, play.has_ids)
    actor = Actor(scene, dialogue, label)
    try:
        opening = f"Session {play.seed[:6]}: " if not play.twin else "hi "
        number, first = 0, opening
        while number < play.requests:
            calls = min(scene.random.choice((0, 2, 3, 5, 9)), play.requests - number - 1)
            if play.profile.titles and first and not play.twin:
                await _title(actor, actor.next_words(calls, first))
            number += await actor.turn(calls, first)
            first = ""
            if number < play.requests:
                number += await _between(actor, number)
    finally:
        for client in scene.open:
            await client.close()


async def _title(actor: Actor, phrase: str) -> None:
    """Ask for a title by the first words, beside the conversation."""
    aside = replace(actor.dialogue, system=["You write a title for a conversation."], tools=[], history=[])
    aside.say(TITLE)
    aside.say(phrase)
    await Actor(actor.scene, aside, actor.label._replace(lane="title")).ask(kind="title")


async def _between(actor: Actor, number: int) -> int:
    """Do what the play's feature is, between two turns; return the number of requests."""
    scene, dialogue, random = actor.scene, actor.dialogue, actor.scene.random
    match scene.play.feature:
        case "errors":
            fault = random.choice(("ERROR 529", "ERROR 429x2", "ERROR 500", "ERROR EVENT"))
            return await actor.turn(1, f"{fault} ")
        case "cuts" if dialogue.stream:
            return await actor.turn(1, "CUT ")
        case "tools":
            if len(dialogue.tools) > 3 and random.random() < 0.4:
                del dialogue.tools[-1]
            else:
                name = f"mcp__late__{number}"
                dialogue.tools.append(tool(name, prose(name, 40), query="string"))
        case "system":
            dialogue.system[-1] = dialogue.system[-1].rpartition("\n")[0] or dialogue.system[-1]
            dialogue.system[-1] += f"\nStatus: {number} files changed"
            if isinstance(dialogue, Claude) and random.random() < 0.5:
                dialogue.remind(f"<system-reminder>{prose(str(number), 12)}</system-reminder>")
        case "compaction" if not dialogue.extra.get("store") and number > 8:
            return await _compaction(actor)
        case "cleared":
            dialogue.empty_results(number // 3)
        case "rewind" if not dialogue.extra.get("store"):
            _rewind(actor)
        case "fork" if not dialogue.extra.get("store") and number < scene.play.requests // 2:
            return await _fork(actor)
        case "agents" if scene.play.profile.spawns:
            return await _agents(actor, number)
        case "hangup" if dialogue.stream:
            return await _hangup(actor)
        case "thinking":
            return await actor.turn(2, "THINK «what is next» ")
        case "count" if isinstance(dialogue, Claude):
            await _count(actor)
        case _:
            pass
    return 0


def _rewind(actor: Actor) -> None:
    """Edit an old message and keep what follows, or go back to one and drop what follows.

    Whoever goes back without ids sends what a fork would send: it counts as a session of its own.
    """
    dialogue, scene = actor.dialogue, actor.scene
    users = [nth for nth, message in enumerate(dialogue.history) if _is_text(message)]
    if scene.random.random() < 0.5:
        dialogue.edit(len(users) // 2)
    elif len(users) > 2:
        del dialogue.history[users[len(users) // 2] :]
        if not scene.play.has_ids:
            actor.label = actor.label._replace(session=f"{scene.play.name}/back-{scene.requests}")


def _is_text(message: Json) -> bool:
    """Return whether a message is a user's words, and no result of a tool."""
    content = message.get("content", message.get("parts"))
    listed = content if isinstance(content, list) else [{"text": content}]
    return message.get("role") == "user" and bool(listed) and "text" in listed[0]


async def _compaction(actor: Actor) -> int:
    dialogue = actor.dialogue
    dialogue.say(SUMMARY)
    answer = await actor.ask(kind="compaction")
    dialogue.history.clear()
    opening = "This session is continued from one that ran out of context. The summary:\n"
    dialogue.say(opening + answer.text)
    return 1 + await actor.turn(2)


async def _fork(actor: Actor) -> int:
    """Go on in the session, then twice from where it was, at once and each as a session of its own."""
    forked = [actor.dialogue.copied() for _ in range(2)]
    number = await actor.turn(2, "The trunk goes on. ")
    label, turns = actor.label, []
    for nth, dialogue in enumerate(forked):
        session = f"{label.session}/fork-{nth}-{actor.scene.requests}"
        play = replace(actor.scene.play, name=session)
        scene = Stage(play, actor.scene.url, actor.scene.open, actor.scene.log, actor.scene.observer)
        branch = Actor(scene, dialogue, label._replace(session=session))
        turns.append(branch.turn(3, f"Branch {nth} does {prose(session, 5)}. "))
    return number + sum(await asyncio.gather(*turns))


async def _agents(actor: Actor, number: int) -> int:
    """Spawn agents in parallel, which work in lanes of their own, and go on with what they say."""
    dialogue, play = actor.dialogue, actor.scene.play
    briefs = [
        f"Helper {nth} of {play.name} at {number}: {prose(f'{play.seed}{number}{nth}', 12)} LOOP [{nth + 1}]"
        for nth in range(actor.scene.random.choice((1, 2, 3)))
    ]
    dialogue.say("TOGETHER " + " ".join(f"SPAWN «{brief}»" for brief in briefs))
    answer = await actor.ask()
    spawned = [call for call in answer.calls if call.name == play.profile.spawns]

    async def work(nth: int, brief: str) -> tuple[str, int]:
        helper_dialogue = play.profile.begin(actor.scene.random, play.seed)
        helper_dialogue.tools = [one for one in helper_dialogue.tools if one["name"] != play.profile.spawns][
            :-2
        ]
        helper_dialogue.system[-1] = "You are a sub-agent.\n" + helper_dialogue.system[-1]
        helper_dialogue.say(brief)
        lane = uuid(Random(brief))
        helper = Actor(actor.scene, helper_dialogue, actor.label._replace(lane=lane))
        return lane, await helper.run()

    worked = await asyncio.gather(*(work(nth, brief) for nth, brief in enumerate(briefs[: len(spawned)])))
    dialogue.results(
        [(call, f"agent {lane} is done") for call, (lane, _) in zip(spawned, worked, strict=False)]
    )
    if not spawned:
        return 1
    return 1 + sum(number for _, number in worked) + await actor.run()


async def _hangup(actor: Actor) -> int:
    """Leave in the middle of an answer, keep what was there, and say something else."""
    dialogue = actor.dialogue
    dialogue.say("LONG «200» SLOW tell me everything")
    before = [*dialogue.history]
    answer = await actor.ask(Options(hangs_up_after=1500))
    dialogue.history = before
    if dialogue.api == "messages" and answer.text:
        block = {"type": "text", "text": answer.text}
        dialogue.history.append({"role": "assistant", "content": [block]})
    return 1 + await actor.turn(1, "[Request interrupted by user] ")


async def _count(actor: Actor) -> None:
    aside = actor.dialogue.copied()
    aside.say("How many tokens are these?")
    counter = Actor(actor.scene, aside, actor.label)
    body = aside.body()
    body.pop("stream", None)
    headers = [("content-type", "application/json"), ("User-Agent", actor.scene.play.profile.agent)]
    if actor.scene.play.has_ids:
        headers += [*actor.scene.play.profile.stamp(body, Ids(actor.scene.session)).items()]
    label = actor.label._replace(kind="count-tokens")
    path = "/v1/messages/count_tokens?beta=true"
    await counter.client.post(path, headers, STYLES["node"](body), label, actor.scene.play.profile.name)


def plays(seed: int, requests: int) -> list[Play]:
    """Return sessions of so many requests: long loops, twins, odd bodies, and all features."""
    random = Random(seed)
    names = [*PROFILES]
    built: list[Play] = []
    scale = requests / 10_000
    for nth in range(round(6 * scale)):
        profile = PROFILES[names[nth % 6]]
        built += [Play(f"{seed}-long-{nth}", profile, 280, "plain", profile.has_ids and nth % 2 == 1)]
    for nth in range(max(1, round(4 * scale))):
        built += [Play(f"{seed}-odd-{nth}", PROFILES["script"], 8, "odd", False)]
    for nth in range(max(1, round(12 * scale))):
        profile = PROFILES[names[nth % len(names)]]
        twins = [Play(f"{seed}-twin-{nth}{one}", profile, 6, "twin", False, f"{seed}-{nth}") for one in "ab"]
        built += twins
    planned, nth = sum(play.requests for play in built), 0
    while planned < requests:
        profile = PROFILES[names[nth % len(names)]]
        feature = random.choice(FEATURES)
        number = random.choice((4, 10, 10, 18, 30, 30, 60))
        built.append(
            Play(
                f"{seed}-{nth}-{feature}", profile, number, feature, profile.has_ids and random.random() < 0.5
            )
        )
        planned, nth = planned + number, nth + 1
    return built
