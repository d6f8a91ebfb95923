"""A moment exported as a test builds the request of its own entries, and names what differs."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, Conversation, Log, ModeSwitch, TextPart, UserMessage
from stenolog.context import Budget, LastN
from stenolog.errors import (
    AgentNotFoundError,
    CallerError,
    CorruptLogError,
    InvalidEventError,
    PositionNotFoundError,
)
from stenolog.events import Unknown
from stenolog.models import Transport
from stenolog.parts import ImagePart
from stenolog.requests import FORMATS
from stenolog.testing import check_moment, example_conversation
from tests.moments.sweep import names_in, ran

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4


@pytest.fixture
def log() -> Iterator[Log]:
    """Return a log with a conversation of two agents, `team`."""
    with stenolog.open(":memory:") as made:
        made["team"].extend(example_conversation())
        yield made


def differing(text: str, word: str, other: str) -> str:
    """Return what the file finds when a word in its entries is another one."""
    entries, rest = text.split("\nBLOBS = ")
    assert word in entries
    return ran(f"{entries.replace(word, other)}\nBLOBS = {rest}")


def test_a_file_passes_by_itself_in_under_a_second_with_no_key_and_no_network(
    log: Log, tmp_path: Path
) -> None:
    (tmp_path / "test_moment.py").write_text(log["team"].export("pytest", agent="coder", at=8))
    deaf = "import socket\ndef refuse(*_): raise OSError('no network here')\nsocket.socket.connect = refuse\n"
    (tmp_path / "conftest.py").write_text(deaf)
    ours = ("_API_KEY", "PYTEST_ADDOPTS")  # `stenolog`'s own run may have options that a newcomer's has not
    environment = {name: value for name, value in os.environ.items() if not name.endswith(ours)}

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=0", "-vv"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert "1 passed" in done.stdout, done.stdout + done.stderr
    took = [float(each) for each in re.findall(r"([0-9.]+)s (?:call|setup|teardown)", done.stdout)]
    assert sum(took) < 1


def test_a_file_imports_the_public_faces_and_the_standard_library_alone(log: Log) -> None:
    text = log["team"].export("pytest", agent="coder", at=8)

    assert re.findall(r"^(?:from|import) .*", text, re.MULTILINE) == [
        "from stenolog.testing import check_moment"
    ]


def test_a_changed_word_is_named_by_its_pointer_with_both_words_the_rule_and_the_entry(log: Log) -> None:
    text = log["team"].export("pytest", agent="coder", at=4, api="openai-chat")

    assert ran(text) == ""
    assert differing(text, "1 failed", "2 failed") == (
        "the request of coder at 4 differs at /messages/2/content\n"
        '  expected  "1 failed"\n'
        '  found     "2 failed"\n'
        "  part      result, entry 4"
    )


@pytest.mark.parametrize("api", sorted(FORMATS))
def test_the_part_is_named_on_every_api(log: Log, api: str) -> None:
    text = log["team"].export("pytest", agent="coder", at=4, api=api)

    assert ran(text) == ""
    assert differing(text, "1 failed", "2 failed").endswith("part      result, entry 4")
    assert differing(text, "Which test fails", "Which one fails").endswith("part      user, entry 2")
    if api != "plain":
        assert "part      tools, entry 1" in differing(text, "Run a command", "Run it")


def test_of_a_long_text_the_place_that_differs_is_shown(log: Log) -> None:
    log["long"].append(UserMessage(text=f"{'a' * 500} then this word {'b' * 500}", to=["coder"]))
    text = log["long"].export("pytest", agent="coder", api="openai-chat")

    told = differing(text, "this word", "that word")

    assert all(len(line) < 120 for line in told.split("\n"))
    assert "then this word" in told
    assert "then that word" in told


def test_a_message_that_is_gone_is_named_with_what_stands_in_its_place(log: Log) -> None:
    text = log["team"].export("pytest", agent="coder", at=2, api="openai-chat")

    told = ran(_without(text, 2))

    assert "differs at /messages/0/content" in told
    assert "Which test fails?" in told


def _without(text: str, position: int) -> str:
    return "\n".join(each for each in text.split("\n") if not each.startswith(f'{{"position": {position},'))


def test_live_fields_are_compared_by_type_and_ignored_ones_not_at_all(log: Log) -> None:
    names = names_in(log["team"].export("pytest", agent="coder", at=4, api="openai-chat"))
    changed = names["ENTRIES"].replace("1 failed", "2 failed").replace("gpt-5", "gpt-6")

    def check(**fields: str) -> None:
        pointers = {pointer.replace("_", "/"): how for pointer, how in fields.items()}
        check_moment(names["MOMENT"], changed, names["REQUEST"], fields=pointers)

    check(_model="live", _messages_2_content="ignore")
    check(_model="ignore", _messages_2="live")
    with pytest.raises(AssertionError, match="/messages/2/content"):
        check(_model="live")
    with pytest.raises(AssertionError, match="/model"):
        check(_messages_2="ignore")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"/model": "dead"}, "/model: expected one of live, ignore, found 'dead'"),
        ({"/messages/99": "live"}, "/messages/99: expected a field of the request, found none there"),
    ],
)
def test_fields_that_cannot_be_are_refused(log: Log, fields: dict[str, str], why: str) -> None:
    names = names_in(log["team"].export("pytest", agent="coder", at=4, api="openai-chat"))

    with pytest.raises(CallerError, match=re.escape(why)):
        check_moment(names["MOMENT"], names["ENTRIES"], names["REQUEST"], fields=fields)


def test_pictures_stand_in_the_file_once_and_a_changed_one_is_seen(log: Log) -> None:
    sha, other = log.blobs.put(PICTURE), log.blobs.put(b"never shown")
    parts = (TextPart(text="What is it?"), ImagePart(media_type="image/png", blob=sha))
    log["pictures"].append(UserMessage(parts=parts, to=["coder"]))

    for api in ("openai-chat", "openai-responses", "anthropic", "gemini"):
        names = names_in(log["pictures"].export("pytest", agent="coder", api=api))

        assert [*names["BLOBS"]] == [sha]
        assert other not in names["REQUEST"]
        assert len(names["REQUEST"]) < 1000
        check_moment(names["MOMENT"], names["ENTRIES"], names["REQUEST"], blobs=names["BLOBS"])
        with pytest.raises(AssertionError, match="differs at"):
            check_moment(names["MOMENT"], names["ENTRIES"], names["REQUEST"])
        broken = {sha: "QUJD"}
        with pytest.raises(CallerError, match="expected that sha256"):
            check_moment(names["MOMENT"], names["ENTRIES"], names["REQUEST"], blobs=broken)


def test_only_the_entries_that_the_request_needs_are_in_the_file() -> None:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.join("coder", model="gpt-5", policy=Budget(tokens=600))
        for turn in range(80):
            talk.append(UserMessage(text=f"Question {turn}: {'why ' * 20}", to=["coder"]))
            talk.append(AssistantMessage(agent="coder", text=f"Answer {turn}: {'so ' * 20}"))
        text = talk.export("pytest", agent="coder", at=160)

    assert ran(text) == ""
    assert text.count('{"position": ') < 20
    assert '{"position": 1, ' in text
    assert "Question 1:" not in text


def test_an_erased_entry_is_not_there_and_the_rest_passes(log: Log) -> None:
    log["team"].erase(2, by="ada", reason="private")

    text = log["team"].export("pytest", agent="coder", at=8)

    assert ran(text) == ""
    assert "Which test fails?" not in text


def test_a_redacted_value_is_not_in_the_file(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db", redact=["token"]) as log:
        log["talk"].join("coder", model="gpt-5")
        log["talk"].append(UserMessage(text="Hi", to=["coder"], meta={"shop": {"token": "s3cret"}}))
        texts = [log["talk"].export(form, agent="coder", api="openai-chat") for form in FORMS]

    assert ran(texts[0]) == ""
    assert not any("s3cret" in text for text in texts)


def test_behind_a_damaged_entry_nothing_is_exported_and_before_it_all_is(tmp_path: Path) -> None:
    path = tmp_path / "talks.db"
    with stenolog.open(path) as log:
        log["team"].extend(example_conversation())
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = 6")
    connection.close()

    with stenolog.open(path) as log:
        assert ran(log["team"].export("pytest", agent="coder", at=5)) == ""
        with pytest.raises(CorruptLogError, match="the entry at position 6 is damaged"):
            log["team"].export("pytest", agent="coder", at=8)


FORMS = ("pytest", "python", "curl", "json")


def test_hostile_texts_come_back_as_they_were(log: Log) -> None:
    hostile = '\'\'\'"""\\" \\N{DASH} {x} %s \x00\x1b[31m\u202e\u2028\x85 \r\n😀 \\u0041 \\'
    log["hostile"].append(ModeSwitch(joins=["coder"], cards={"coder": AgentCard(persona=hostile)}))
    log["hostile"].append(UserMessage(text=hostile, to=["coder"], author="a'\"b"))
    text = log["hostile"].export("pytest", agent="coder", api="openai-chat")

    assert ran(text) == ""
    assert all(each.isprintable() for each in text.replace("\n", ""))


def test_an_entry_of_a_later_release_that_may_be_passed_over_does_no_harm(log: Log) -> None:
    log["later"].append(UserMessage(text="Hi", to=["coder"]))
    log["later"].append(Unknown(topic="poll@1", payload=b'{"ignorable":true}', ignorable=True))
    log["later"].append(UserMessage(text="And?", to=["coder"]))

    assert ran(log["later"].export("pytest", agent="coder")) == ""


def test_what_has_no_request_yet_is_refused(log: Log) -> None:
    talk = log["late"]
    talk.append(ModeSwitch(joins=["coder"]))
    talk.append(UserMessage(text="Hi", to=["coder"]))
    talk.join("reviewer")

    with pytest.raises(
        InvalidEventError, match="'late' at 1: coder has no request yet: nothing has been said"
    ):
        talk.export("pytest", agent="coder", at=1)
    with pytest.raises(AgentNotFoundError, match=r"'late' at 2: no agent 'reviewer' \(known: coder"):
        talk.export("pytest", agent="reviewer", at=2)
    with pytest.raises(PositionNotFoundError, match="expected a position from 1 to 3, found 4"):
        talk.export("pytest", agent="coder", at=4)
    with pytest.raises(PositionNotFoundError):
        talk.export("pytest", agent="coder", at=0)


def test_a_position_is_for_forms_of_one_request_alone(log: Log) -> None:
    for given in ({"at": 3}, {"api": "plain"}, {"policy": Budget(tokens=9000)}):
        with pytest.raises(CallerError, match="of the whole conversation"):
            log["team"].export("jsonl", **given)
    with pytest.raises(CallerError, match="expected agent=, one of: coder, reviewer"):
        log["team"].export("pytest", at=3)


def test_a_request_that_was_sent_is_exported_as_it_was_sent(log: Log) -> None:
    talk = log["sent"]
    talk.join("coder", model="gpt-5")
    talk.append(UserMessage(text="Hi", to=["coder"]))
    for style, add in (("spaced", {"stream": True}), ("compact", {"stream": True})):
        asked = talk.position
        receipt = _sent(talk, style, add)
        talk.append(AssistantMessage(agent="coder", text="Hello", receipt=receipt))
        talk.append(UserMessage(text="And?", to=["coder"]))
        text = talk.export("pytest", agent="coder", at=asked)

        assert ran(text) == ""
        assert names_in(text)["MOMENT"]["sent"] == receipt.sent
        assert names_in(text)["MOMENT"]["policy"] == {"history": {"kind": "last", "n": 5}}
        assert '"stream":true' in talk.export("json", agent="coder", at=asked).replace(" ", "")
        assert "the bytes sent" in ran(text.replace('"stream": True', '"stream": False'))


def _sent(talk: Conversation, style: str, add: dict[str, Any]) -> Any:
    request = talk.request("coder", api="openai-chat", policy=LastN(5))
    transport = Transport("POST", "/chat/completions", add, style=style)
    sent = sha256(transport.render(request.body)).hexdigest()
    return replace(request.receipt, sent=sent, transport=transport.json)


def test_a_prompt_of_a_program_is_compared_turn_by_turn(log: Log) -> None:
    text = log["team"].export("pytest", agent="coder", at=4, api="plain")

    assert "differs at /prompt, turn 2" in differing(text, "1 failed", "2 failed")


def test_another_order_of_the_keys_is_seen(log: Log) -> None:
    text = log["team"].export("pytest", agent="coder", at=4, api="openai-chat")
    names = names_in(text)
    moment = {**names["MOMENT"], "sha256": "0" * 64}

    with pytest.raises(AssertionError, match="the order of the keys"):
        check_moment(moment, names["ENTRIES"], names["REQUEST"])
