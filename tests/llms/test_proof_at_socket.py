"""What arrives at a provider's socket is what the receipt says, to the byte, for every API and attempt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest

import stenolog
from stenolog import (
    AssistantMessage,
    Conversation,
    Event,
    LlmError,
    Team,
    TextPart,
    UserMessage,
)
from stenolog.context import LastN
from stenolog.engine import Agent
from stenolog.events import Receipt
from stenolog.models import CommandLine, Model
from stenolog.parts import ReasoningPart
from stenolog.requests import proofs
from tests.agents.given import PYTHON
from tests.command_line import run as command
from tests.engine.given import Clock, run, run_team
from tests.llms.api import Api
from tests.llms.apis import CHAT, MESSAGES, every
from tests.llms.server import Reply, Server, failure
from tests.requests.sessions import session

Mode = Literal["first", "retry", "fall-back"]
UNKNOWN = failure(400, {"error": {"message": "Unknown parameter: 'stream_options'."}})
BUSY = failure(503, {"error": {"message": "overloaded"}})
WORDS = 'Go on, né: "x\\n" \u2028 \U0001f600'
FEW, MANY = (3,), range(5)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        yield one


def said(seed: int) -> list[Event]:
    """Return a generated conversation, of `coder` among others."""
    return session(seed, 3 + seed)


def receipts(conversation: Conversation) -> list[Receipt]:
    """Return the receipts of the calls that the engine made, in order."""
    events = (entry.event for entry in conversation.entries())
    answers = (event for event in events if isinstance(event, AssistantMessage | LlmError))
    return [answer.receipt for answer in answers if answer.receipt is not None]


def arrived(server: Server, mode: Mode) -> list[str]:
    """Return the sha256 of the bodies that came; a fall-back's first one is no attempt of the engine's."""
    bodies = [sha256(request.content).hexdigest() for request in server.received]
    return bodies[1:] if mode == "fall-back" else bodies


def asked(conversation: Conversation, model: Model) -> None:
    """Have the agent answer a message."""
    team = Team(
        [Agent("coder", model, persona="You code in Łódź.", parameters={"max_tokens": 99})],
        world=Clock().world,
    )

    async def work() -> None:
        async with team:
            await run_team(team, conversation, UserMessage(text=WORDS, to=["coder"]))

    run(work())


def attempt(server: Server, api: Api, path: Path, mode: Mode, seed: int) -> None:
    """Make one generated conversation and one call; the receipts match the bytes, and are proved."""
    server.received.clear()
    before = {"first": [], "retry": [BUSY], "fall-back": [UNKNOWN]}[mode]
    server.add(*before, Reply(list(api.frames(api.answer(TextPart(text="Hello"))))))
    with stenolog.open(path) as log:
        conversation = log["demo"]
        conversation.extend(said(seed))
        asked(conversation, api.at(server))
        kept = receipts(conversation)
        found = [
            (proof.outcome, proof.reason, proof.covers)
            for proof in proofs(conversation.entries(), blobs=log.blobs)
        ]
        last = [entry.event for entry in conversation.entries()][-1]
    assert isinstance(last, AssistantMessage), last
    assert [receipt.sent for receipt in kept] == arrived(server, mode)
    assert found == [("same", "", "sent")] * len(kept)


def verified(path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return the report of `verify --requests` on a log."""
    assert command(["check", "log", "--requests", "--json", "--db", str(path)]) == 0
    return json.loads(capsys.readouterr().out)["data"]["requests"]


few_or_many = pytest.mark.parametrize(
    "seeds", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"]
)


@every
@few_or_many
@pytest.mark.parametrize("mode", ["first", "retry"])
def test_the_sha256_at_the_socket_is_that_of_the_receipt(
    server: Server,
    api: Api,
    mode: Mode,
    seeds: Iterable[int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for seed in seeds:
        attempt(server, api, tmp_path / f"{seed}.db", mode, seed)
    told = verified(tmp_path / "3.db", capsys)
    assert (told["same"], told["differs"], told["not-provable"]) == (1 + (mode == "retry"), [], [])


@few_or_many
def test_a_fall_back_has_a_receipt_of_its_own(server: Server, tmp_path: Path, seeds: Iterable[int]) -> None:
    for seed in seeds:
        attempt(server, CHAT, tmp_path / f"{seed}.db", "fall-back", seed)
        assert ["stream_options" in request.body for request in server.received] == [True, False]


ONE_SHOT = """
import pathlib, sys
told = sys.argv[2].encode() if sys.argv[2:] else sys.stdin.buffer.read()
kept = pathlib.Path(sys.argv[1])
attempts = kept.read_bytes().count(b"#") if kept.exists() else 0
with kept.open("ab") as file:
    file.write(told.hex().encode() + b"#")
sys.exit(print("Hello") if attempts else 1)
"""
LONG_LIVED = """
import pathlib, sys
told = b""
for line in sys.stdin.buffer:
    told += line
    if line.startswith(b"{") or line == b"<<<end>>>\\n":
        pathlib.Path(sys.argv[1]).write_bytes(told.hex().encode() + b"#")
        result = '{"type": "result", "text": "Hello"}'
        print(result if line.startswith(b"{") else "Hello\\n<<<end>>>", flush=True)
        told = b""
"""
Program = tuple[str, list[str], dict[str, Any]]
PROGRAMS: dict[str, Program] = {
    "one-shot": (ONE_SHOT, [], {}),
    "argument": (ONE_SHOT, ["{prompt}"], {}),
    "long-lived": (LONG_LIVED, [], {"mode": "long-lived"}),
    "JSON lines": (LONG_LIVED, [], {"mode": "long-lived", "format": "jsonl"}),
}


def program_attempt(program: Program, path: Path, seed: int) -> None:
    """Make one generated conversation, and one call of a program that keeps its receipt."""
    source, arguments, options = program
    kept = path.with_suffix(".hex")
    model = CommandLine([*PYTHON, "-c", source, str(kept), *arguments], **options)
    with stenolog.open(path) as log:
        conversation = log["demo"]
        conversation.extend(said(seed))
        asked(conversation, model)
        bodies = [bytes.fromhex(body) for body in kept.read_text().split("#")[:-1]]
        found = [(proof.outcome, proof.covers) for proof in proofs(conversation.entries())]
        assert [receipt.sent for receipt in receipts(conversation)] == [sha256(b).hexdigest() for b in bodies]
    assert found == [("same", "sent")] * len(bodies)


@few_or_many
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_what_a_program_is_given_is_what_the_receipt_says(
    program: Program, seeds: Iterable[int], tmp_path: Path
) -> None:
    """One that is run for each request fails at first, and is given the same again."""
    for seed in seeds:
        program_attempt(program, tmp_path / f"{seed}.db", seed)


def patched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the SDKs change a word of what they are given."""
    real = httpx2.AsyncClient.build_request

    def changed(self: httpx2.AsyncClient, *args: Any, content: bytes, **kwargs: Any) -> httpx2.Request:
        return real(self, *args, content=content.replace(b"Go on", b"Go off"), **kwargs)

    monkeypatch.setattr(httpx2.AsyncClient, "build_request", changed)


@every
def test_a_word_that_a_patched_sdk_changes_is_found_and_nothing_is_sent(
    server: Server, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched(monkeypatch)
    with stenolog.open(tmp_path / "talks.db") as log:
        asked(log["demo"], api.at(server))
        error = [entry.event for entry in log["demo"].entries()][-1]
    assert server.received == []
    assert isinstance(error, LlmError)
    assert error.category == "invalid_request"
    assert "the SDK changed the request on its way, so it was not sent" in error.message
    assert "expected 'n, né" in error.message
    assert "found 'ff, né" in error.message


def test_a_header_that_changes_behaviour_is_in_the_receipt_and_a_key_is_not(
    server: Server, tmp_path: Path
) -> None:
    server.add(Reply(list(MESSAGES.frames(MESSAGES.answer(TextPart(text="Hello"))))))
    headers = {"Anthropic-Beta": "context-1m", "X-Key": "sk-1"}
    with stenolog.open(tmp_path / "talks.db") as log:
        asked(log["demo"], MESSAGES.at(server, default_headers=headers))
        (receipt,) = receipts(log["demo"])
    assert receipt.transport == {
        "method": "POST",
        "path": "/v1/messages",
        "add": {"stream": True},
        "headers": {
            "anthropic-beta": "context-1m",
            "anthropic-version": server.received[0].headers["anthropic-version"],
        },
    }


HELLO = TextPart(text="Hello there, it's me.")
THOUGHT = ReasoningPart(text="First look.", provider="anthropic", signature="EqQB+/c2ln==")


def test_a_model_of_another_provider_takes_over_with_its_own_body_and_receipt(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One breaks off in mid-answer; the next is asked, twice; the first is asked again at the next turn."""
    server.add(Reply(MESSAGES.frames(MESSAGES.answer(THOUGHT, HELLO))))
    server.add(Reply([*MESSAGES.frames(MESSAGES.answer(HELLO))][:4], end="cut"))
    server.add(Reply(MESSAGES.frames(MESSAGES.answer(HELLO))))
    with stenolog.open(tmp_path / "t.db") as log, Server() as other:
        other.add(BUSY, Reply(CHAT.frames(CHAT.answer(TextPart(text="Here I am.")))))
        conversation, models = log["demo"], [MESSAGES.at(server), CHAT.at(other)]

        async def work() -> None:
            agent = Agent("coder", models, "You code.", parameters={"max_tokens": 9})
            async with Team([agent], world=Clock().world) as team:
                for words in ("One", "Two", "Three"):
                    await run_team(team, conversation, words)

        run(work())
        said = [e.event for e in conversation.entries() if isinstance(e.event, AssistantMessage | LlmError)]
        kept = [(event.kind, event.receipt.api.partition("@")[0]) for event in said if event.receipt]
        sent = [receipt.sent for receipt in receipts(conversation)]
        found = [(proof.outcome, proof.covers) for proof in proofs(conversation.entries())]
    came = [*server.received[:2], *other.received, server.received[2]]
    assert kept == [
        ("assistant_message", "anthropic"),
        ("llm_error", "anthropic"),
        ("llm_error", "openai-chat"),
        ("assistant_message", "openai-chat"),
        ("assistant_message", "anthropic"),
    ]
    assert sent == [sha256(request.content).hexdigest() for request in came]
    assert found == [("same", "sent")] * 5
    assert [part.text for part in said[1].parts if isinstance(part, TextPart)] == ["Hello ther"]
    told = verified(tmp_path / "t.db", capsys)
    assert (told["same"], told["differs"], told["not-provable"]) == (5, [], [])


def test_a_request_that_anthropic_refuses_as_too_long_is_cut_and_sent_again(
    server: Server, tmp_path: Path
) -> None:
    words = "prompt is too long: 4000 tokens > 3000 maximum"
    for _ in range(3):
        server.add(Reply(MESSAGES.frames(MESSAGES.answer(HELLO))))
    server.add(failure(400, {"error": {"type": "invalid_request_error", "message": words}}))
    server.add(Reply(MESSAGES.frames(MESSAGES.answer(HELLO))))
    with stenolog.open(tmp_path / "t.db") as log:
        conversation, model = log["demo"], MESSAGES.at(server)

        async def work() -> None:
            agent = Agent("coder", model, policy=LastN(50), parameters={"max_tokens": 9})
            async with Team([agent], world=Clock().world) as team:
                for n in range(4):
                    await run_team(team, conversation, f"{n} " + "x" * 400)

        run(work())
        found = [(proof.outcome, proof.covers) for proof in proofs(conversation.entries())]
        limit = conversation.settings().card_of("coder").context_limit
        failed = conversation.request("coder", 8, "anthropic", policy=LastN(50)).tokens
        assert conversation.settings(at=8).card_of("coder").context_limit == 0
    sizes = [len(request.content) for request in server.received]
    assert found == [("same", "sent")] * 5
    assert (sizes[4] < sizes[3], limit) == (True, failed * 3 // 4)
