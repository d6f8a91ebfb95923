"""System 5, a workflow whose writers work at the same time on one conversation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import stenolog
from stenolog import AgentCard, AssistantMessage, Entry, Event, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.context import Attribution, Budget, FullHistory, LastN, Pins, Policy
from stenolog.events import PositionRange
from stenolog.requests import LaneId, lanes
from tests.systems.given import Room, left_out, roles, shown, words

WRITERS, RUNS = 8, 50
PINS = Pins(authors=["system"], tags=["stakeholders", "company"])
OPENING = ModeSwitch(
    joins=["planner", "writer"], cards={"writer": AgentCard(persona="You write mails.", policy=PINS)}
)
COMPANY: list[Event] = [
    OPENING,
    UserMessage(author_kind="system", text="Never promise a date."),
    UserMessage(text="Stakeholders: Ann and Bob.", tags=["stakeholders"]),
    UserMessage(text="Acme makes anvils.", tags=["company"]),
]


def brief(n: int) -> UserMessage:
    """Return the planner's brief for one instance of the writer."""
    return UserMessage(text=f"Mail {n}, please.", author="planner", author_kind="agent", to=[f"writer/{n}"])


def write(room: Room, n: int, together: Barrier) -> None:
    """Write on a connection of its own: a writer answers its request, as often as there are runs."""
    with stenolog.open(room.path) as log:
        conversation = log[room.name]
        together.wait(60)
        for turn in range(RUNS):
            receipt = conversation.request("writer", task=f"{n}", policy=LastN(10, step=5)).receipt
            conversation.append(
                AssistantMessage(agent="writer", task=f"{n}", text=f"{n}.{turn}", receipt=receipt)
            )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """Return the log after eight writers have written fifty answers each at the same time."""
    room = Room(tmp_path_factory.mktemp("writers") / "talks.db").write(*COMPANY, *map(brief, range(WRITERS)))
    together = Barrier(WRITERS)
    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(write, room, n, together) for n in range(WRITERS)]:
            done.result()
    return room.entries()


def answers(entries: list[Entry]) -> list[tuple[int, AssistantMessage]]:
    return [(e.position, e.event) for e in entries if isinstance(e.event, AssistantMessage)]


def test_eight_writers_at_once_lose_no_word_in_fifty_runs(written: list[Entry]) -> None:
    texts = [answer.text for _, answer in answers(written)]

    assert sorted(texts) == sorted(f"{n}.{turn}" for n in range(WRITERS) for turn in range(RUNS))
    assert [entry.position for entry in written] == [*range(1, len(written) + 1)]
    for n in range(WRITERS):
        mine = [text for text in texts if text.startswith(f"{n}.")]
        assert mine == [f"{n}.{turn}" for turn in range(RUNS)]


def test_every_answer_says_at_which_position_its_view_was_taken(written: list[Entry]) -> None:
    own: dict[str, int] = {}
    for position, answer in answers(written):
        assert answer.receipt is not None
        assert own.get(answer.task, 12) <= answer.receipt.view < position
        own[answer.task] = position


def test_instances_of_one_agent_are_lanes(written: list[Entry]) -> None:
    assert [lane for lane in lanes(written) if lane.task] == [
        LaneId("writer", f"{n}") for n in range(WRITERS)
    ]


def test_a_lane_says_its_own_words_as_its_own_and_hears_the_other_instances_as_others(room: Room) -> None:
    room.write(*COMPANY, brief(0), brief(1))
    room.answer("writer", "Dear Ann", task="0")
    room.answer("writer", "Dear Bob", task="1", view=6)
    room.write(UserMessage(text="Shorter.", to=["writer/0", "writer/1"]))

    first, second = (words(room.request("writer", task=task)) for task in "01")

    assert first[-3:] == ["Dear Ann", '<message sender="writer/1">\nDear Bob\n</message>', "Shorter."]
    assert second[-3:] == ["Dear Bob", '<message sender="writer/0">\nDear Ann\n</message>', "Shorter."]


THINK = ToolCall(id="t", name="think", arguments="{}")


@pytest.fixture
def long(room: Room) -> Room:
    """Return ten rounds of reasoning by the planner, some 250 tokens each, and then a task."""
    room.write(*COMPANY)
    for n in range(10):
        room.write(
            AssistantMessage(agent="planner", text=f"Reasoning {n} " + "because " * 100, tool_calls=[THINK]),
            ToolResult(call_id="t", text="so " * 60),
        )
    return room


PINNED = [((2,), "system-note"), ((3,), "user"), ((4,), "user")]


def in_full(request: stenolog.Request) -> list[tuple[tuple[int, ...], str]]:
    return [(p.positions, p.rule) for p in request.parts if p.rule not in ("persona", "tools", "tool-stub")]


@pytest.mark.parametrize("chosen", [PINS | Budget(tokens=1_000), PINS | LastN(5)], ids=["budget", "last"])
@pytest.mark.parametrize("agent", ["planner", "writer"])
def test_system_stakeholders_company_and_the_current_task_stay_whatever_is_pruned(
    long: Room, agent: str, chosen: Policy
) -> None:
    long.write(UserMessage(text="Write to Ann."))

    request = long.request(agent, policy=chosen)

    assert in_full(request)[:3] == PINNED
    assert in_full(request)[-1] == ((25,), "user")
    assert [(run.first, run.rule) for run in request.omissions][:1] in (
        [(5, "over-budget")],
        [(5, "beyond-last")],
    )
    assert request.ready


def test_reasoning_is_summarised_and_what_is_pinned_within_it_is_not(long: Room) -> None:
    summary = AssistantMessage(
        agent="planner",
        purpose="summary",
        covers=[PositionRange(first=2, last=24)],
        text="Ann first.",
        to=["writer"],
    )
    long.write(summary, UserMessage(text="Write to Ann."))

    request = long.request("writer", policy=PINS | Budget(tokens=16_000))

    assert in_full(request) == [*PINNED, ((25,), "summary"), ((26,), "user")]
    assert left_out(request) == [(5, 24, "covered")]
    assert request.omissions[0].tokens > 2_000


def test_the_system_rows_of_the_conversation_are_rows_of_the_request(room: Room) -> None:
    room.write(*COMPANY)

    assert ("system", "Never promise a date.") in roles(room.request("writer"))


def test_the_list_of_the_document_is_sent_if_asked_for_outputs_of_agents_are_assistant_messages(
    room: Room,
) -> None:
    said = (
        *(UserMessage(text="The report."), AssistantMessage(agent="planner", text="Stakeholders: Ann.")),
        *(UserMessage(text="Selected: Ann."), AssistantMessage(agent="planner", text="Mail 1: Ann.")),
        UserMessage(text="Write to Ann.", to=["writer/1"]),
    )
    room.write(OPENING, *said)
    sent = room.request("writer", task="1", policy=PINS | Attribution(role="assistant")).body["messages"]

    assert [(message["role"], message["content"]) for message in sent] == [
        ("system", "You write mails."),
        ("user", "The report."),
        ("assistant", "Stakeholders: Ann."),
        ("user", "Selected: Ann."),
        ("assistant", "Mail 1: Ann."),
        ("user", "Write to Ann."),
    ]


def test_a_mail_that_is_regenerated_in_place_stands_where_the_first_one_stood(room: Room) -> None:
    room.write(*COMPANY, UserMessage(text="To Ann."))
    room.answer("writer", "Dear Ann, we are late.")
    room.write(UserMessage(text="To Bob."))
    room.answer("writer", "Dear Bob")
    room.write(AssistantMessage(agent="writer", text="Dear Ann, all is well.", replaces=6))
    room.write(UserMessage(text="Any more?"))

    request = room.request("writer", policy=FullHistory())

    assert words(request)[-5:] == ["To Ann.", "Dear Ann, all is well.", "To Bob.", "Dear Bob", "Any more?"]
    assert left_out(request) == [(6, 6, "replaced")]


def test_a_fork_before_a_mail_shares_everything_before_it_and_nothing_after(room: Room) -> None:
    room.write(*COMPANY, UserMessage(text="To Ann."))
    asked = room.answer("writer", "Dear Ann, we are late.")
    with room.opened() as conversation:
        fork = conversation.fork(after=5, name="kinder")

        again = fork.request("writer")

        assert again.body == asked.body
        assert again.ready
        fork.append(UserMessage(text="Kinder, please."))
        assert words(fork.request("writer"))[-2:] == ["To Ann.", "Kinder, please."]
    assert "Kinder, please." not in words(room.request("writer"))


def test_a_question_after_the_workflow_is_answered_with_all_of_it(room: Room) -> None:
    room.write(*COMPANY, brief(0))
    room.answer("writer", "Dear Ann", task="0", meta={"quality": {"score": 0.9}})
    room.write(UserMessage(text="Why so short?", to=["planner"]))

    request = room.request("planner")

    assert [positions for positions, _ in shown(request)] == [(3,), (4,), (5,), (6,), (7,)]
    assert "quality" not in request.bytes.decode()
