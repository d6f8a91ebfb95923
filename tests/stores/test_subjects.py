"""Erasure of a subject: every form of it, in every conversation, and the truth about what stays."""

from __future__ import annotations

import functools
import json
import zlib
from pathlib import Path
from random import Random
from unicodedata import normalize

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, Log, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.errors import CallerError
from stenolog.events import dump_event
from stenolog.maintenance import erase_subject, find_subject, hold, verify
from stenolog.parts import TextPart
from tests.file_bytes import words_in

SUBJECT = "Renée Öztürk"
FORMS = [
    SUBJECT,
    SUBJECT.upper(),
    SUBJECT.lower(),
    normalize("NFD", SUBJECT),
    SUBJECT.replace(" ", "\n  "),
    SUBJECT.replace("t", "t\u00ad\u200b"),
    "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in SUBJECT),  # of full width
]
HAY = ["the parser", "Rene Ozturk", "Renée", "Öztürk, Renée", ""]


def event(log: Log, chance: Random, text: str) -> UserMessage | AssistantMessage | ToolResult:
    """Return an event that says a text in one of the ways there are."""
    inner = json.dumps({"who": text, "more": [1]}, ensure_ascii=chance.random() < 0.5)
    match chance.randrange(9):
        case 0:
            return UserMessage(text=f"ask {text}!")
        case 1:
            return UserMessage(text="hello", meta={"app": {"about": [text]}})
        case 2:
            return AssistantMessage(agent="a", parts=[ToolCall(id="c", name="find", arguments=inner)])
        case 3:
            return UserMessage(text=json.dumps({"deep": inner}))
        case 4:
            output = f"a long output about {text} …".encode()
            blob = log.blobs.put(zlib.compress(output) if chance.random() < 0.5 else output)
            return ToolResult(call_id="c", text="a preview", blob=blob)
        case 5:
            return UserMessage(text="hello", author=f"{text} ")
        case 6:
            deep = functools.reduce(lambda inner, _: json.dumps([inner]), range(6), text)
            return UserMessage(text=deep)
        case 7:
            return UserMessage(parts=[TextPart(text=text[:4]), TextPart(text=text[4:])])
        case _:
            return UserMessage(text=f"{inner[:-3]} cut off")


@pytest.mark.parametrize("seed", range(20))
def test_every_entry_with_the_subject_is_erased_and_no_other(path: Path, seed: int) -> None:
    chance = Random(seed)
    having: set[tuple[str, int]] = set()
    with stenolog.open(path) as log:
        for name in ("one", "two", "three"):
            for _ in range(chance.randrange(1, 12)):
                is_about = chance.random() < 0.3
                said = event(log, chance, chance.choice(FORMS if is_about else HAY))
                if isinstance(said, AssistantMessage):
                    log[name].append(said)
                    log[name].append(ToolResult(call_id="c", text="done"))
                    at = log[name].position - 1
                else:
                    at = log[name].append(said).position
                having |= {(name, at)} if is_about else set()
        log["one"].archive()
        log["one"].fork(name="fork")
        found = find_subject(log, text=chance.choice(FORMS))
        done = erase_subject(log, found, reason="on request", by="Ann")

        assert {(place.conversation, place.position) for place in found.places} == having
        assert {(name, at) for name, positions in done.positions.items() for at in positions} == having
        assert (done.stays, done.beside) == ((), ())
        assert find_subject(log, text=SUBJECT)[2:] == ((), (), ())
        assert verify(log).ok
        receipts = {
            name: json.loads(dump_event(entry.event)[1])["meta"]["stenolog"]["erasure"]["together"]
            for name in log.names(archived=True)
            for entry in log[name].entries()
            if isinstance(entry.event, UserMessage) and "stenolog" in entry.event.meta
        }
        assert set(receipts.values()) <= {done.together}
        assert receipts.keys() == done.recorded_at.keys()
    for form in FORMS[:4]:
        assert form.encode() not in words_in(path)


def test_what_is_held_or_waits_for_a_result_stays_and_says_why(log: Log) -> None:
    for name in ("held", "free", SUBJECT):
        log[name].append(UserMessage(text=f"about {SUBJECT}"))
    log["waiting"].append(
        AssistantMessage(agent="a", parts=[ToolCall(id="c", name="find", arguments=json.dumps(SUBJECT))])
    )
    hold(log, "held", reason="case", by="Ann")
    found = find_subject(log, text=SUBJECT)
    done = erase_subject(log, found)

    assert {place.conversation: place.stays for place in done.stays} == {
        "held": "under hold 5 by Ann: case",
        "waiting": "a call of it has no result yet",
    }
    assert done.positions == {"free": (2,), SUBJECT: (2,)}
    assert [(one.what, one.conversation) for one in done.beside] == [("name", SUBJECT)]


def test_a_name_that_an_erased_mode_switch_needs_is_said_to_stay(log: Log) -> None:
    log["demo"].append(ModeSwitch(joins=[SUBJECT], cards={SUBJECT: AgentCard(model="m", persona="x")}))
    log["demo"].append(UserMessage(text=f"hi {SUBJECT}", to=[SUBJECT]))
    done = erase_subject(log, find_subject(log, text=SUBJECT))

    assert [(one.position, one.stays) for one in done.stays] == [(1, "erased; its effects stay")]
    assert done.positions == {"demo": (1, 2)}


def test_a_hold_that_comes_meanwhile_keeps_its_conversation_alone(log: Log) -> None:
    for name in ("one", "held", "two"):
        log[name].append(UserMessage(text=f"about {SUBJECT}"))
    found = find_subject(log, text=SUBJECT)
    hold(log, "held", reason="case", by="Ann")
    done = erase_subject(log, found)

    assert done.positions == {"one": (2,), "two": (2,)}
    assert [(one.conversation, one.stays) for one in done.stays] == [("held", "under hold 4 by Ann: case")]


def test_a_subject_that_nobody_could_see_is_refused(log: Log) -> None:
    with pytest.raises(CallerError, match="expected a text"):
        find_subject(log, text="\u200b")


def test_what_an_author_wrote_is_erased_and_who_was_sent_it_is_named(log: Log) -> None:
    talk = log["demo"]
    talk.append(ModeSwitch(cards={"coder": AgentCard(model="gpt-5.2")}))
    talk.append(UserMessage(text="The key is under the mat.", author="Ann", to=["coder"]))
    receipt = talk.request("coder").receipt
    talk.append(
        AssistantMessage(
            agent="coder", text="So: The key is under the mat.", model="gpt-5.2", receipt=receipt
        )
    )
    talk.append(UserMessage(text="And I am Bob.", author="Bob", to=["coder"]))
    found = find_subject(log, author="ANN")
    done = erase_subject(log, found)

    assert done.positions == {"demo": (2,)}
    assert done.quoted_at == {"demo": [3]}
    (sent,) = done.recipients
    assert (sent.provider, sent.model, sent.agent, sent.requests) == ("openai-chat", "gpt-5.2", "coder", 1)
    assert find_subject(log, author="coder").places[0].position == 3


def test_a_reason_that_names_the_subject_is_refused(log: Log) -> None:
    log["demo"].append(UserMessage(text=SUBJECT))
    found = find_subject(log, text=SUBJECT)
    with pytest.raises(CallerError, match="leave that out"):
        erase_subject(log, found, reason=f"asked by {SUBJECT.upper()}")

    assert find_subject(log, text=SUBJECT) == found
