"""What a person may write for a position, and for the name of a conversation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.conversation.queries.backwards import PAGE, backwards
from stenolog.apps.cli.arguments.position import full_name, resolve
from stenolog.domain.errors import ConversationNotFoundError, InvalidEventError, PositionNotFoundError
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import ToolCall
from tests.cli.conftest import Ran

OUTSIDE = ["7", "0", "-1", "@~6", "@~7", "@{error}~6", "2026-11-19"]
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
EVENTS: list[Event] = [
    ModeSwitch(mode="chat"),
    UserMessage(text="go"),
    AssistantMessage(agent="a", tool_calls=[ToolCall(id="c1", name="sh")]),
    ToolResult(call_id="c1", text="done"),
    LlmError(agent="a", category="timeout"),
    UserMessage(text="again"),
]


@pytest.fixture(scope="module")
def conversation() -> Conversation:
    """Return six entries, an hour apart, the first at noon."""
    made = open_log(":memory:")["talk"]
    for hour, event in enumerate(EVENTS):
        made.append(event, time=NOON + timedelta(hours=hour), expected=made.position)
    return made


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("4", 4),
        ("@", 6),
        ("@~0", 6),
        ("@~2", 4),
        ("@{user}", 6),
        ("@{user}~1", 5),
        ("@{assistant}", 3),
        ("@{tool}", 4),
        ("@{error}", 5),
        ("@{mode}", 1),
        ("@{llm_error}", 5),
        ("@call:c1", 3),
        ("2026-11-20T12:00:00Z", 1),
        ("2026-11-20T13:30", 2),
        ("2026-11-20 15:00:00+01:00", 3),
        ("2026-11-20", 6),
    ],
)
def test_a_position_may_be_written_as(conversation: Conversation, written: str, expected: int) -> None:
    assert resolve(conversation, written) == expected


@pytest.mark.parametrize("written", [*OUTSIDE, "@call:c2"])
def test_a_position_that_is_not_there_is_unknown(conversation: Conversation, written: str) -> None:
    with pytest.raises(PositionNotFoundError, match="'talk'"):
        resolve(conversation, written)


@pytest.mark.parametrize("written", OUTSIDE)
def test_what_is_outside_is_refused_in_the_same_words_everywhere(
    conversation: Conversation, written: str
) -> None:
    with pytest.raises(PositionNotFoundError) as told:
        resolve(conversation, written)

    assert str(told.value) == f"'talk': expected an entry from 1 to 6, found {written}"


def test_before_the_first_entry_is_a_position_where_one_asks_for_what_comes_after(
    conversation: Conversation,
) -> None:
    assert [resolve(conversation, written, least=0) for written in ("0", "@~6", "2026-11-19")] == [0, 0, 0]


@pytest.mark.parametrize("written", ["", "last", "@last", "@{nonsense}", "1.5", "²", "2026-13-01"])
def test_what_is_no_position_is_refused_with_the_forms_that_are(
    conversation: Conversation, written: str
) -> None:
    with pytest.raises(InvalidEventError, match="expected a position"):
        resolve(conversation, written)


def test_entries_are_read_backwards_page_by_page() -> None:
    long = open_log(":memory:")["long"]
    long.extend(UserMessage(text=str(number)) for number in range(PAGE + 10))

    assert [entry.position for entry in backwards(long, long.position)] == [*range(long.position, 0, -1)]


def test_a_name_may_be_abbreviated_as_long_as_only_one_begins_so() -> None:
    names = ["demo", "demo~1", "mail run", "mailing"]

    assert full_name(names, "demo") == "demo"
    assert full_name(names, "demo~") == "demo~1"
    assert full_name(names, "mail ") == "mail run"


def test_an_ambiguous_name_is_refused_with_those_it_could_be() -> None:
    with pytest.raises(InvalidEventError, match="'mail run', 'mailing'"):
        full_name(["demo", "mail run", "mailing"], "mail")


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConversationNotFoundError, match="did you mean 'weekly'"):
        full_name(["demo", "weekly"], "wekly")
    with pytest.raises(ConversationNotFoundError, match="'zzz' \\(known: a, b, c, …: see `stenolog ls`\\)"):
        full_name([*"abcdefg"], "zzz")
    with pytest.raises(ConversationNotFoundError, match="known: none yet"):
        full_name([], "demo")


def test_a_beginning_shared_with_ones_forks_alone_means_the_conversation() -> None:
    names = ["60b3-session", "60b3-session~1", "60b3-session~1~1"]

    assert full_name(names, "60b3") == "60b3-session"
    assert full_name(names, "60b3-session~") == "60b3-session~1"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--db", "other.db", "ls"), "Options go after the command: stenolog COMMAND --db …"),
        (("fork", "demo", "--at", "3"), "Say --after ENTRY or --before ENTRY."),
        (("show", "3", "demo"), "the conversation comes first: stenolog show demo 3"),
        (("explain", "agent", "coder", "--agent", "x"), "An agent needs no option here: stenolog explain"),
    ],
)
def test_what_stands_in_the_wrong_place_is_answered_with_the_right_one(
    demo: Callable[..., Ran], arguments: tuple[str, ...], told: str
) -> None:
    ran = demo(*arguments)
    assert ran.status == 2
    assert told in ran.err
