"""OpenAI messages that were imported are exported as they were, and again the same."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stenolog
from stenolog import Conversation, Log, ModeSwitch
from stenolog.errors import AgentNotFoundError
from stenolog.importers import export_openai, import_file
from stenolog.testing import example_conversation
from tests.requests.corpus import TRANSCRIPTS
from tests.transcripts.given import Import
from tests.transcripts.soundness import assert_sound

TAU_BENCH = TRANSCRIPTS / "tau_bench" / "gpt-4o-airline.dev.json"
PICTURE = "data:image/png;base64,aGVsbG8="
Message = dict[str, Any]


def imported(into: Import, messages: list[Message]) -> Conversation:
    """Return the messages as a conversation of a fresh name, nothing of them skipped."""
    name = f"talk-{len(into.log)}"
    into.file(json.dumps(messages).encode(), f"{name}.json")
    (found,) = into.report.conversations
    assert (found.name, found.skipped, found.failed) == (name, [], "")
    return into.log[name]


def there_and_back(into: Import, messages: list[Message]) -> list[Message]:
    return export_openai(imported(into, messages), "assistant")


# Messages of every shape


def some_messages(draw: Random) -> list[Message]:
    """Return up to ten messages in any order, with the fields that providers and users have added."""
    return [_some_message(draw) for _ in range(draw.randint(1, 10))]


def _some_message(draw: Random) -> Message:
    roles = ["system", "developer", "user", "user", "assistant", "assistant", "assistant", "tool", "function"]
    role = draw.choice(roles)
    message = {"role": role, "content": _some_content(draw)}
    if role == "assistant":
        message |= _maybe(draw, 0.6, tool_calls=[_some_call(draw) for _ in range(draw.randint(0, 3))])
        message |= _maybe(draw, 0.1, function_call={"name": "old", "arguments": "{}"})
        message |= _maybe(draw, 0.2, reasoning_content="Hm")
        message |= _maybe(draw, 0.2, refusal=draw.choice(["No.", None]))
    elif role in ("tool", "function"):
        message |= _maybe(draw, 0.8, tool_call_id=draw.choice(["c1", "c2", "c9", ""]))
        message |= _maybe(draw, 0.5, name="look")
    else:
        message |= _maybe(draw, 0.2, name="ada")
    message |= _maybe(draw, 0.1, extra={"k": [1, 1.5, None]})
    message |= _maybe(draw, 0.05, timestamp=draw.choice(["2026-01-01T00:00:00Z", 3, "soon"]))
    return message | _maybe(draw, 0.05, model="gpt-5")


def _maybe(draw: Random, chance: float, **fields: Any) -> Message:
    return fields if draw.random() < chance else {}


def _some_content(draw: Random) -> Any:
    a_text, a_picture = {"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": PICTURE}}
    linked = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    pdf = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}
    return draw.choice(
        [
            *(None, "", " ", "Hi", "Ünï\n", "a\0b", 7, {"a": 1}, [], ["plain"]),
            *([a_text], [a_text, a_text], [a_picture], [linked, {"type": "text", "text": ""}]),
            *([{"type": "file", "file": pdf}], [{"type": "file", "file": {"file_id": "f1"}}]),
            *([{"type": "odd", "x": 1}], [{"type": "refusal", "refusal": "No."}]),
        ]
    )


def _some_call(draw: Random) -> Message:
    name = draw.choice(["look", "", "bad name"])
    arguments = draw.choice(["{}", '{"a": 1}', "{oops", "", {"a": 1}, None])
    id = draw.choice(["c1", "c2", "", None, "c 3"])
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("seed", range(50))
def test_what_was_exported_gives_the_same_bytes_again(into: Import, seed: int) -> None:
    once = there_and_back(into, some_messages(Random(seed)))
    again = there_and_back(into, once) if once else []

    assert json.dumps(again) == json.dumps(once)
    assert_sound(into.log)


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(
            [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}], id="system"
        ),
        pytest.param([{"role": "developer", "content": "Be kind."}], id="developer"),
        pytest.param(
            [{"role": "user", "content": "Hi", "name": "ada"}, {"role": "developer", "content": "Hush."}],
            id="a later developer",
        ),
        pytest.param(
            [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "See"}, {"type": "text", "text": "it"}],
                },
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}]},
            ],
            id="parts",
        ),
        pytest.param(
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "a b", "arguments": "{oops"}},
                        {
                            "id": "c",
                            "type": "function",
                            "function": {"name": "look", "arguments": '{"b": 1}'},
                        },
                    ],
                },
                {"role": "tool", "tool_call_id": "c", "name": "look", "content": "Done"},
            ],
            id="calls",
        ),
        pytest.param(
            [
                {
                    "role": "assistant",
                    "content": "No",
                    "reasoning_content": "Hm",
                    "refusal": "No.",
                    "audio": None,
                }
            ],
            id="the rest",
        ),
    ],
)
def test_plain_messages_come_out_as_they_went_in(into: Import, messages: list[Message]) -> None:
    assert there_and_back(into, messages) == messages


# Conversations that were none of OpenAI's


@pytest.mark.parametrize("agent", ["coder", "reviewer"])
def test_a_conversation_of_two_agents_gives_the_same_bytes_again(into: Import, agent: str) -> None:
    into.log["demo"].extend(example_conversation()[:10], expected=0)

    once = export_openai(into.log["demo"], agent)

    assert json.dumps(there_and_back(into, once)) == json.dumps(once)


def test_another_agents_words_are_a_users_of_that_name(into: Import) -> None:
    into.log["demo"].extend(example_conversation()[:10], expected=0)

    heard = export_openai(into.log["demo"], "reviewer")

    assert {message["role"] for message in heard if message.get("name") == "coder"} == {"user"}
    assert heard[-1] == {"role": "assistant", "content": "The parser reads local time."}


def test_messages_of_nobody_are_refused_with_who_is_there(into: Import) -> None:
    into.log["demo"].append(ModeSwitch(mode="chat", joins=["coder"]), expected=0)

    with pytest.raises(AgentNotFoundError, match=r"no agent 'nobody' \(known: coder"):
        export_openai(into.log["demo"], "nobody")


# tau-bench


@pytest.fixture(scope="module")
def tau_bench() -> list[Message]:
    if not TAU_BENCH.is_file():
        pytest.skip("the transcripts are not beside this checkout")
    found: list[Message] = json.loads(TAU_BENCH.read_text())
    return found


def exported(log: Log, path: Path) -> list[list[Message]]:
    """Return the messages of every conversation of a file."""
    report = import_file(log, path)
    return [export_openai(log[found.name], "assistant") for found in report.conversations]


def test_tau_bench_comes_out_as_it_went_in(tau_bench: list[Message]) -> None:
    with stenolog.open(":memory:") as log:
        found = exported(log, TAU_BENCH)

    assert len(found) == 24
    for messages, trajectory in zip(found, tau_bench, strict=True):
        assert [_heard(message) for message in messages] == [_heard(m) for m in trajectory["traj"]]


def _heard(message: Message) -> tuple[Any, ...]:
    """Return role, content, and calls; an empty list of calls is none."""
    fields = ("role", "content", "name", "tool_call_id")
    return *(message.get(name) for name in fields), message.get("tool_calls") or None


def test_tau_bench_gives_the_same_bytes_again(tau_bench: list[Message], into: Import) -> None:
    with stenolog.open(":memory:") as log:
        found = exported(log, TAU_BENCH)

    assert len(found) == len(tau_bench)
    for messages in found:
        assert json.dumps(there_and_back(into, messages)) == json.dumps(messages)
