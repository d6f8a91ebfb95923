"""Chats of NeuroCrew Lab, `chat_<id>.json`, with what is known of the chat or as a bare list."""

from __future__ import annotations

import json
from datetime import UTC, timedelta
from itertools import accumulate
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stenolog import AssistantMessage, UserMessage
from stenolog.contrib.neurocrew import document
from stenolog.errors import CallerError, UnknownFormatError
from stenolog.importers import import_file, recognise
from tests.transcripts.given import Import, importing
from tests.transcripts.soundness import words

pytestmark = pytest.mark.usefixtures("sound")

Json = dict[str, Any]
ABOUT = {"chat_id": 42, "message_count": 4, "last_updated": "2025-03-01T10:05:00", "version": "1.0"}
DEV = {"agent_name": "qwen", "role_name": "backend_dev", "role_display_name": "Backend Dev"}
TESTER = {"agent_name": "gemini", "role_name": "tester", "role_display_name": "Tester"}


def message(number: int, text: str, role: str = "user", **fields: Any) -> Json:
    return {"role": role, **fields, "content": text, "timestamp": f"2025-03-01T10:00:{number:02}.000250"}


CHAT = [
    message(0, "Build a login."),
    message(1, "I take sessions.", "agent", **DEV),
    message(2, ".....", "agent", **TESTER),
    message(3, "Do they expire?"),
]
FORMS = {
    "with metadata": lambda messages: {"metadata": ABOUT, "conversation": messages},
    "with its id": lambda messages: {"chat_id": "42", "messages": messages},
    "bare list": lambda messages: messages,
}


def chat(into: Import, document: Any, indent: int | None = 2) -> Import:
    return into.file(json.dumps(document, indent=indent).encode(), "chat_42.json")


@pytest.mark.parametrize("indent", [2, None])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_chat_comes_in_with_who_said_what(into: Import, form: Any, indent: int | None) -> None:
    chat(into, form(CHAT), indent)

    assert (into.report.format, [conversation.name for conversation in into.report.conversations]) == (
        "neurocrew",
        ["chat_42"],
    )
    who = [event.agent if isinstance(event, AssistantMessage) else "" for event in into.said]
    assert [*zip(who, words(into), strict=True)] == [
        ("", "Build a login."),
        ("Backend Dev", "I take sessions."),
        ("Tester", "....."),
        ("", "Do they expire?"),
    ]
    assert into.conversation.settings().members == ("Backend Dev", "Tester")
    assert [entry.time.isoformat() for entry in into.entries[1:3]] == [
        "2025-03-01T10:00:00.000250+00:00",
        "2025-03-01T10:00:01.000250+00:00",
    ]


def test_the_turn_goes_on_where_it_was_and_passes_are_left_out(into: Import) -> None:
    chat(into, CHAT)

    assert into.conversation.state().turn_state.holders == ("Backend Dev",)
    request = into.conversation.request("Backend Dev", api="plain")
    assert request.body["prompt"].split("\n\n") == [
        "User: Build a login.",
        "Assistant (Backend Dev): I take sessions.",
        "User: Do they expire?",
    ]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_nothing_of_a_file_is_lost(into: Import, form: Any) -> None:
    said = [*CHAT, {**CHAT[1], "content": "Yes.", "confidence": 0.5, "id": 7}]
    document = form(said)
    chat(into, document)

    def again(event: Any) -> Json:
        return {"role": event.source.role, "content": event.text, **event.meta["neurocrew"]}

    assert [again(event) for event in into.said] == said
    about = {key: value for key, value in document.items() if value is not said} if form(1) != 1 else {}
    assert [switch.meta.get("neurocrew", {}) for switch in into.settings] == [about]


def test_a_chat_goes_back_into_a_file_with_what_was_said_since_and_comes_again(
    into: Import,
) -> None:
    chat(into, {"metadata": ABOUT, "conversation": CHAT})
    conversation = into.conversation
    asked = conversation.append(UserMessage("And a lost password?", author="Ann"))
    conversation.append(AssistantMessage(agent="Backend Dev", text="By a link.", model="qwen3"))
    conversation.append(AssistantMessage(agent="UI Lead", text=".....", model="gemini-3"))
    conversation.append(AssistantMessage(agent="Tester", purpose="memory", text="A fact."))
    written = document(conversation)

    assert written["conversation"][:4] == CHAT
    since = [
        {key: said[key] for key in said if key not in ("timestamp", "id")}
        for said in written["conversation"][4:]
    ]
    assert since == [
        {"role": "user", "content": "And a lost password?"},
        {"role": "agent", **DEV, "content": "By a link."},
        {
            "role": "agent",
            "agent_name": "gemini-3",
            "role_name": "ui_lead",
            "role_display_name": "UI Lead",
            "content": ".....",
        },
    ]
    about = written["metadata"]
    assert (about["chat_id"], about["message_count"], about["version"]) == (42, 7, "1.0")
    assert about["last_updated"] == written["conversation"][-1]["timestamp"] > asked.time.isoformat()[:10]

    # The old room goes on with the file for a day, and the file comes back.
    written["conversation"].append(message(59, "Said in the old room."))
    before = len(into.entries)
    chat(into, written)
    assert words(into)[4:] == [
        "And a lost password?",
        "By a link.",
        ".....",
        "A fact.",
        "Said in the old room.",
    ]
    assert len(into.entries) - before <= 2  # the message, and what its file says of the chat


SLOPPY = [
    ({"role": "assistant", "content": "Hi", "name": "Ann"}, ("Ann", "Hi")),
    ({"role": "assistant", "content": "Hi"}, ("assistant", "Hi")),
    ({"role": "Backend Dev", "content": "Hi"}, ("Backend Dev", "Hi")),
    ({"role_name": "backend_dev", "text": "Hi"}, ("backend_dev", "Hi")),
    ({"role": "agent", "role_display_name": "UI/UX", "content": "Hi"}, ("UI-UX", "Hi")),
    ({"role": "agent", "content": {"answer": 1}, **DEV}, ("Backend Dev", '{"answer":1}')),
    ({"role": "agent", "content": "", **DEV}, ("Backend Dev", "")),
    ({"role": "system", "content": "Hi"}, ("system", "Hi")),
    ({"role": "human", "content": "Hi"}, ("person", "Hi")),
    ({"role": " User", "content": "Hi"}, ("person", "Hi")),
    ({"role": "SYSTEM", "content": "Hi"}, ("system", "Hi")),
    ({"role": "Agent", "content": "Hi", **DEV}, ("Backend Dev", "Hi")),
    ({"role": "agent", "role_name": "user", "content": "Hi"}, ("user-agent", "Hi")),
]


@pytest.mark.parametrize(("given", "expected"), SLOPPY)
def test_what_somebody_else_may_have_written_is_read_too(
    into: Import, given: Json, expected: tuple[str, str]
) -> None:
    chat(into, {"chat_id": 42, "messages": [CHAT[0], given]})

    (_, event) = into.said
    assert isinstance(event, UserMessage | AssistantMessage)
    who = event.author_kind if isinstance(event, UserMessage) else event.agent
    assert (who, event.text) == expected


# Again


def test_a_file_that_has_grown_adds_what_is_new_and_one_that_has_not_adds_nothing(into: Import) -> None:
    chat(into, {"metadata": ABOUT, "conversation": CHAT[:2]})
    grown = {"metadata": {**ABOUT, "message_count": 5}, "conversation": CHAT}

    added = [chat(into, grown).report.conversations[0].appended for _ in range(2)]

    assert added == [3, 0]  # two messages, and what the file says of itself now
    assert words(into) == [said["content"] for said in CHAT]
    assert [switch.joins for switch in into.settings] == [("Backend Dev",), ("Tester",)]
    about: Any = into.settings[-1].meta["neurocrew"]
    assert about["metadata"]["message_count"] == 5


def fifty(at: int, **changes: Any) -> list[Json]:
    """Return a chat as it was kept after so many messages: the last fifty of them."""
    said = [
        message(number % 60, f"Message {number}", *(() if number % 3 else ("agent",)), **(DEV | changes))
        for number in range(at)
    ]
    return [{**each, **changes} for each in said][-50:]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(fifty(50), fifty(100), id="nothing of it is known"),
        pytest.param(fifty(70), fifty(50), id="an older state"),
        pytest.param(fifty(50, timestamp=None), fifty(60, timestamp=None), id="cut and without times"),
        pytest.param(CHAT, [CHAT[0], {**CHAT[1], "content": "No."}, *CHAT[2:]], id="other words"),
    ],
)
def test_what_cannot_be_joined_is_refused_and_nothing_is_mixed(
    into: Import, tmp_path: Path, first: list[Json], second: list[Json]
) -> None:
    before = chat(into, first).entries

    (found,) = chat(into, second).report.conversations

    assert "give it another name" in found.failed
    assert into.entries == before
    import_file(into.log, tmp_path / "chat_42.json", name="other")
    assert into.log["other"].position == len(second) + 1


def test_without_times_a_file_may_grow(into: Import) -> None:
    chat(into, fifty(30, timestamp=None))
    chat(into, fifty(50, timestamp=None))

    assert words(into) == [f"Message {number}" for number in range(50)]


@given(st.lists(st.integers(1, 11), min_size=1, max_size=6), st.randoms())
def test_however_often_it_was_cut_and_imported_each_message_is_there_once(
    steps: list[int], random: Random
) -> None:
    """Kept are the last 12, of which at most 11 are new."""
    texts = [random.choice(["Yes.", "No.", "....."]) for _ in range(sum(steps))]
    said = [message(number % 60, text, "agent", n=number // 60, **DEV) for number, text in enumerate(texts)]
    with TemporaryDirectory() as folder, importing(Path(folder)) as into:
        for at in accumulate(steps):
            chat(into, said[max(0, at - 12) : at])
        assert words(into) == texts


# Bad files


def test_a_message_that_cannot_be_taken_down_is_skipped_with_the_reason(into: Import) -> None:
    bad = [7, {"role": "user"}, {"content": "?"}, {"role": "user", "content": None}, {**DEV, "n": 10**2000}]
    bad[-1] |= {"content": "?"}  # type: ignore[operator]
    for _ in range(2):
        chat(into, {"chat_id": 42, "messages": [CHAT[0], *bad, CHAT[1]]})

    assert words(into) == ["Build a login.", "I take sessions."]
    assert {skip.unit for skip in into.report.skipped} == {"message"}
    assert [(skip.line, skip.reason.partition(",")[0]) for skip in into.report.skipped] == [
        (2, "expected an object"),
        (3, "expected content"),
        (4, "expected a role"),
        (5, "expected content"),
        (6, "what cannot be written: expected an integer of at most 1000 digits"),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"metadata": {"chat_id": 1}, "conversation": [{"role": "us', "is the file cut off"),
        (b'{"metadata": {"chat_id": 1}, "conversation": "none"}', "a list in 'conversation', found str"),
        (b'{"chat_id": 1, "messages": {}}', "a list in 'messages', found dict"),
        (b'{"metadata": {"chat_id": 1}}', "an object with the keys metadata"),
        (b'{"chat_id": 1, "n": 1' + b"0" * 2000 + b', "messages": []}', "cannot be written"),
    ],
)
def test_a_bad_file_is_refused_with_a_reason(into: Import, content: bytes, reason: str) -> None:
    with pytest.raises(UnknownFormatError, match=reason):
        into.file(content, "chat_1.json")

    assert into.log.names(archived=True) == []


def test_a_chat_without_messages_leaves_nothing(into: Import) -> None:
    chat(into, {"metadata": ABOUT, "conversation": []})

    assert (into.report.holds_a_conversation, list(into.log)) == (False, [])


CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
OPENAI = {
    "a list": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
    "a list with times": [{"role": "assistant", "content": "Ho", "timestamp": 1}],
    "a list with names": [{"role": "user", "content": "Hi", "name": "Ann"}],
    "of a chat": {"chat_id": 1, "messages": [{"role": "user", "content": "Hi"}, CALL]},
    "parts": {"chat_id": 1, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
}


@pytest.mark.parametrize("document", OPENAI.values(), ids=OPENAI)
@pytest.mark.parametrize("indent", [2, None])
def test_openai_messages_stay_what_they_are(document: Any, indent: int | None) -> None:
    assert recognise(json.dumps(document, indent=indent).encode()) == "openai-chat"


def test_a_list_that_nobody_has_answered_yet_is_a_chat_where_it_says_when(into: Import) -> None:
    chat(into, CHAT[:1])
    chat(into, CHAT)

    assert words(into) == [said["content"] for said in CHAT]


@pytest.mark.parametrize(("zone", "hour"), [("", 12), ("Asia/Kathmandu", 6)])
def test_times_without_a_zone_are_of_the_one_that_is_named_and_go_out_by_the_same_clock(
    into: Import, zone: str, hour: int
) -> None:
    said = [{"role": "user", "content": "Hi", "timestamp": "2025-03-01T12:00:00"}]
    into.file(json.dumps({"chat_id": 42, "conversation": said}).encode(), zone=zone)
    entry = into.entries[-1]
    into.conversation.append(UserMessage(text="And now?"), time=entry.time + timedelta(hours=1))
    out = document(into.conversation)["conversation"]

    assert (entry.time.hour, entry.time.tzinfo) == (hour, UTC)
    assert [each["timestamp"] for each in out] == ["2025-03-01T12:00:00", "2025-03-01T13:00:00"]


def test_a_zone_that_nobody_knows_is_refused(into: Import) -> None:
    with pytest.raises(CallerError, match="expected a name such as Europe/Vienna, or local"):
        into.file(b"[]", zone="Mars")
