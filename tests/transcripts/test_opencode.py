"""Sessions of opencode, in its storage folder and in its database."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, Log, ToolResult, UserMessage
from stenolog.events import Usage
from stenolog.importers import import_file
from stenolog.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from tests.transcripts.given import Json
from tests.transcripts.opencode_given import (
    TALK,
    Message,
    answer,
    at,
    call,
    events,
    finish,
    session,
    shown,
    taken,
    text,
    user,
    write_database,
    write_folder,
)
from tests.transcripts.soundness import assert_sound

Write = Callable[[list[Json], list[Message]], Path]


@pytest.fixture
def log() -> Iterator[Log]:
    with stenolog.open(":memory:") as log:
        yield log
        assert_sound(log)


@pytest.fixture(params=["folder", "database"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Write:
    """Return a function that writes sessions to a storage, which may be there already."""
    if request.param == "folder":
        return lambda sessions, messages: write_folder(tmp_path / "storage", sessions, messages)
    return lambda sessions, messages: write_database(tmp_path / "opencode.db", sessions, messages)


def test_a_session_comes_in_with_who_said_what(log: Log, write: Write) -> None:
    report = taken(log, write([session()], TALK))
    asked, said, output, last = events(log)
    settings = log["ses_1"].settings()

    assert report.format in ("opencode", "opencode-db")
    assert (asked.text, asked.author_kind, asked.to) == ("List it.", "person", ("opencode",))
    assert [type(part) for part in said.parts] == [ReasoningPart, TextPart, ToolCall]
    assert (said.tool_calls[0].name, said.tool_calls[0].arguments) == ("bash", '{"command":"ls"}')
    assert said.parts[0] == ReasoningPart(text="Hm.", provider="openai", id="rs_1")
    assert (said.model, said.finish_reason, said.cause) == ("gpt-x", "tool-calls", 2)
    assert said.usage == Usage(input=17, output=5, cache_read=5, cache_write=2, reasoning=1, cost=1200)
    assert (output.text, output.name, output.is_error, output.duration_ms) == ("a.txt", "bash", False, 1000)
    assert (last.text, last.source.id) == ("One file.", "msg_3")
    assert (settings.title, settings.mode, settings.card_of("opencode").provider) == (
        "the bell",
        "build",
        "openai",
    )
    opening: Any = next(iter(log["ses_1"])).event
    about = {"cwd": "/home/user/shop", "project": "prj", "version": "1.2.3"}
    assert opening.meta == {"opencode": about}
    assert log["ses_1"][1].time.isoformat() == "2026-01-02T03:04:06+00:00"


def test_each_step_of_an_answer_is_a_response_of_its_own(log: Log, write: Write) -> None:
    steps = answer(
        "msg_2",
        2,
        {"type": "step-start"},
        call("c1", second=2, output="a.txt"),
        finish("tool-calls"),
        {"type": "step-start"},
        "One file.",
        finish(),
    )
    taken(log, write([session()], [TALK[0], steps]))

    assert [event.kind for event in events(log)] == [
        "user_message",
        "assistant_message",
        "tool_result",
        "assistant_message",
    ]
    assert shown(log, "a.txt", "One file.") == [True, True]


def test_words_that_opencode_adds_are_by_the_system_and_pictures_are_blobs(log: Log, write: Write) -> None:
    picture = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,aGk=", "filename": "x.png"}
    source = {"type": "file", "mime": "text/plain", "url": "file:///x/a.py", "filename": "a.py"}
    asked = user("msg_1", 1, "See", text("Called the Read tool", synthetic=True), source, "and", picture)
    aside = user("msg_2", 2, text("Only on screen", ignored=True))
    taken(log, write([session()], [asked, aside]))
    first, second, third, fourth = events(log)

    assert [each.author_kind for each in (first, second, third)] == ["person", "system", "person"]
    assert first.meta == {"opencode": {"files": [{"filename": "a.py", "mime": "text/plain"}]}}
    assert [type(part) for part in third.parts] == [TextPart, ImagePart]
    assert fourth.in_context is False


ABORTED = {"name": "MessageAbortedError", "data": {"message": "The operation was aborted."}}
LIMITED = {"name": "APIError", "data": {"message": "Too many requests", "statusCode": 429}}


def test_an_answer_that_failed_is_an_error_with_what_had_come(log: Log, write: Write) -> None:
    retry = {"type": "retry", "attempt": 2, "error": LIMITED, "time": {"created": at(4)["start"]}}
    cut = answer("msg_4", 6, {"type": "step-start"}, retry, "I beg", error=ABORTED)
    after = answer("msg_6", 8, call("c2", second=8, output="b.txt"), error=LIMITED)
    taken(log, write([session()], [*TALK, cut, user("msg_5", 7, "Go on."), after]))
    retried, aborted, _, said, output, limited = events(log)[4:]

    assert isinstance(retried, LlmError)
    assert (retried.category, retried.attempt) == ("rate_limited", 2)
    assert isinstance(aborted, LlmError)
    assert (aborted.category, aborted.text) == ("cancelled", "I beg")
    assert isinstance(said, AssistantMessage)
    assert isinstance(output, ToolResult)
    assert isinstance(limited, LlmError)
    assert (limited.category, limited.parts) == ("rate_limited", ())


def test_a_failed_call_is_an_error_and_a_running_one_has_no_result(log: Log, write: Write) -> None:
    failed = call("c1")
    failed["state"] = {"status": "error", "input": {}, "error": "no such file", "time": at(2, 3)}
    pending = call("c3", output=None)
    pending["state"] = {"status": "pending", "input": {}, "raw": '{"comm'}
    messages = [
        TALK[0],
        answer("msg_2", 2, failed, call("c2", output=None), pending),
        user("msg_3", 9, "So?"),
    ]
    taken(log, write([session()], messages))
    said, output = events(log)[1:3]

    assert [each.arguments for each in said.tool_calls] == ["{}", "{}", '{"comm']
    assert (output.is_error, output.text) == (True, "no such file")


def test_an_answer_that_is_being_written_waits_with_its_last_words(log: Log, write: Write) -> None:
    begun = answer("msg_2", 2, "I look.", call("c1", output=None), text("And th"), open=True)
    report = taken(log, write([session()], [TALK[0], begun]))
    assert report.conversations[0].ignored["part/unfinished"] == 1
    assert [event.kind for event in events(log)] == ["user_message", "assistant_message"]

    done = answer("msg_2", 2, "I look.", call("c1", output="a.txt"), text("And that is it."), finish="stop")
    taken(log, write([session()], [TALK[0], done]))
    with stenolog.open(":memory:") as other:
        taken(other, write([], []))
        for api in ("openai-chat", "anthropic"):
            bodies = [each["ses_1"].request("opencode", api=api).body for each in (log, other)]
            assert bodies[0] == bodies[1]


CHILD = session("ses_child0001", parentID="ses_1", title="Find tests (@explore subagent)")
TASK = call("c1", "task", 2, "There are two.", prompt="Find all tests.", subagent_type="explore")
TASK["state"] |= {"metadata": {"sessionId": "ses_child0001"}, "time": at(2, 6)}
INSIDE: Json = {"session": "ses_child0001"}


def with_sub_agent() -> list[Message]:
    return [
        TALK[0],
        answer("msg_2", 2, "I ask.", TASK),
        Message("msg_3", 3, "user", text("Find all tests."), **INSIDE, agent="explore"),
        Message("msg_4", 4, "assistant", text("Found two."), call("c9", second=4), **INSIDE, agent="explore"),
        answer("msg_5", 7, "Two."),
    ]


def test_a_sub_agent_has_a_lane_of_its_own_begun_by_its_call(log: Log, write: Write) -> None:
    taken(log, write([session(), CHILD], with_sub_agent()))
    name = "explore-" + "ses_child0001"[-8:]
    brief = next(event for event in events(log) if getattr(event, "author_kind", "") == "agent")
    asked = next(e.position for e in log["ses_1"] if getattr(e.event, "text", "") == "I ask.")

    assert list(log) == ["ses_1"]
    assert isinstance(brief, UserMessage)
    assert (brief.text, brief.author, brief.cause, brief.to) == (
        "Find all tests.",
        "opencode",
        asked,
        (name,),
    )
    assert shown(log, "Found two.", "There are two.", "Two.") == [False, True, True]
    assert shown(log, "Find all tests.", "Found two.", "List it.", agent=name) == [True, True, False]


def test_a_compaction_is_a_summary_of_what_comes_before_its_tail(log: Log, write: Write) -> None:
    asked = user("msg_5", 8, {"type": "compaction", "auto": True, "tail_start_id": "msg_4"})
    summary = answer("msg_6", 9, "They listed.", summary=True, finish="stop", parentID="msg_5")
    messages = [*TALK, user("msg_4", 7, "Again."), asked, summary, user("msg_7", 10, "And now?")]
    taken(log, write([session()], messages))

    assert shown(log, "List it.", "One file.", "Again.", "They listed.", "And now?") == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_a_result_that_was_cleared_leaves_the_context(log: Log, write: Write) -> None:
    cleared = call("c1", output="a.txt")
    cleared["state"]["time"]["compacted"] = at(9)["start"]
    taken(log, write([session()], [TALK[0], answer("msg_2", 2, cleared), user("msg_3", 9, "So?")]))

    assert shown(log, "List it.", "a.txt", "So?") == [True, False, True]


def test_what_was_taken_back_is_hidden_and_shown_again_when_it_comes_back(log: Log, write: Write) -> None:
    taken(log, write([session()], TALK))
    taken(log, write([session(revert={"messageID": "msg_3"})], TALK))
    assert shown(log, "List it.", "One file.") == [True, False]

    taken(log, write([session()], TALK))
    assert shown(log, "List it.", "One file.") == [True, True]


def test_messages_that_are_gone_are_hidden_and_stay_as_a_fork(log: Log, tmp_path: Path) -> None:
    storage = write_folder(tmp_path / "storage", [session()], TALK)
    taken(log, storage)
    (storage / "message" / "ses_1" / "msg_3.json").unlink()
    shutil.rmtree(storage / "part" / "msg_3")
    taken(log, write_folder(storage, [], [user("msg_4", 9, "Else?")]))

    assert shown(log, "List it.", "One file.", "Else?") == [True, False, True]
    assert [name for name in log if name.startswith("ses_1~")]


def test_a_title_that_comes_late_is_the_title_unless_somebody_set_one_here(log: Log, write: Write) -> None:
    first = session(title="New session - 2026-01-02T03:04:05.678Z")
    taken(log, write([first], TALK))
    assert log["ses_1"].settings().title == "List it."
    taken(log, write([session(title="Listing")], TALK))
    assert log["ses_1"].settings().title == "Listing"
    log["ses_1"].append(stenolog.ModeSwitch(title="mine"), expected=7)
    taken(log, write([session(title="Theirs")], TALK))
    assert log["ses_1"].settings().title == "mine"


def test_a_call_without_a_result_leaves_the_context_with_a_compaction_once(log: Log, write: Write) -> None:
    asked = answer("msg_2", 2, "I look.", call("c1", output=None), finish="tool-calls")
    summary = answer("msg_3", 5, "They listed.", summary=True, finish="stop")
    taken(log, write([session(revert={"messageID": "msg_5"})], [TALK[0], asked, summary, *LATER]))
    report = taken(log, write([session()], [TALK[0], asked, summary, *LATER]))

    assert shown(log, "I look.", "They listed.", "Else?", "And now?") == [False, True, True, True]
    assert report.conversations[0].appended == 1


LATER = [user("msg_4", 7, "Else?"), user("msg_5", 8, "And now?")]


def test_an_answer_imported_after_each_of_its_parts_gives_the_same_requests(log: Log, write: Write) -> None:
    steps = [
        *(
            {"type": "step-start"},
            text("I look."),
            call("c1", second=2, output="a.txt"),
            finish("tool-calls"),
        ),
        *({"type": "step-start"}, text("One more."), call("c2", second=4), finish("tool-calls")),
        *({"type": "step-start"}, text("That is all."), finish()),
    ]
    for number in range(len(steps) + 1):
        begun = answer("msg_2", 2, *steps[:number], open=True)
        taken(log, write([session()], [TALK[0], begun]))
    path = write([session()], [TALK[0], answer("msg_2", 2, *steps, finish="stop")])
    taken(log, path)
    with stenolog.open(":memory:") as whole:
        import_file(whole, path)
        for api in ("openai-chat", "anthropic", "gemini"):
            bodies = [each["ses_1"].request("opencode", api=api).body for each in (log, whole)]
            assert bodies[0] == bodies[1]
