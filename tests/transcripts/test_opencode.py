"""Sessions of opencode: its storage folder, its database, and its exports."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog import AssistantMessage, LlmError, Log, ToolResult, UserMessage
from stenolog.errors import UnknownFormatError
from stenolog.events import Usage
from stenolog.importers import Report, files_in, import_file, recognise
from stenolog.parts import ImagePart, ReasoningPart, TextPart, ToolCall
from tests.requests.judging import SHARED
from tests.transcripts.acceptance import (
    Said,
    assert_accepted,
    assert_again_adds_nothing,
    assert_nothing_lost,
)
from tests.transcripts.given import Json
from tests.transcripts.opencode_given import (
    TABLES,
    Message,
    answer,
    at,
    call,
    finish,
    session,
    text,
    user,
    write_database,
    write_folder,
)
from tests.transcripts.soundness import assert_sound

SAMPLES = sorted((SHARED / "transcripts" / "agent_sessions_fixtures").glob("*opencode*.json"))
needs_samples = pytest.mark.skipif(not SAMPLES, reason="the transcripts are not beside this checkout")
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


def taken(log: Log, path: Path) -> Report:
    """Import a storage twice: the second time adds nothing. Return the first report."""
    report = import_file(log, path)
    again = import_file(log, path)
    assert [one.failed for one in report.conversations if one.failed] == []
    assert sum(one.appended for one in again.conversations) == 0
    return report


def events(log: Log, name: str = "ses_1") -> list[Any]:
    return [entry.event for entry in log[name] if entry.event.kind != "mode_switch"]


def shown(log: Log, *words: str, agent: str = "opencode", name: str = "ses_1") -> list[bool]:
    body = str(log[name].request(agent, api="anthropic").body)
    return [each in body for each in words]


def said_in_opencode(folder: Path) -> Iterator[Said]:
    """Yield all that stands in the files of messages and parts."""
    for file in folder.glob("part/**/*.json"):
        part = json.loads(file.read_text())
        state = part.get("state", {})
        yield from ((name, part[name]) for name in ("text", "prompt", "tool") if name in part)
        yield from ((name, state[name]) for name in ("output", "error") if name in state)
        yield from (("argument", each) for each in state.get("input", {}).values() if isinstance(each, str))
    for file in folder.glob("message/**/*.json"):
        error = json.loads(file.read_text()).get("error", {})
        yield "error", error.get("data", {}).get("message", "")


TALK = [
    user("msg_1", 1, "List it."),
    answer(
        "msg_2",
        2,
        {"type": "step-start"},
        {"type": "reasoning", "text": "Hm.", "metadata": {"openai": {"itemId": "rs_1"}}, "time": at(2, 3)},
        "I look.",
        call("c1", command="ls", output="a.txt"),
        finish("tool-calls"),
        finish="tool-calls",
    ),
    answer("msg_3", 5, {"type": "step-start"}, "One file.", finish(), finish="stop"),
]


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


def test_a_folder_and_the_database_that_it_became_are_one_session(log: Log, tmp_path: Path) -> None:
    taken(log, write_folder(tmp_path / "storage", [session()], TALK))
    report = taken(log, write_database(tmp_path / "opencode.db", [session()], TALK))

    assert list(log) == ["ses_1"]
    assert report.conversations[0].appended == 0


def test_an_export_is_the_session(log: Log, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    messages = [{"info": message.info, "parts": message.parts} for message in TALK]
    file.write_text(json.dumps({"info": session(), "messages": messages}))
    taken(log, file)

    assert [event.kind for event in events(log)] == [
        "user_message",
        "assistant_message",
        "tool_result",
        "assistant_message",
    ]


def test_the_folder_is_found_by_its_content(tmp_path: Path) -> None:
    write_folder(tmp_path / "share" / "storage", [session()], TALK)
    (tmp_path / "share" / "storage" / "todo").mkdir()
    other = tmp_path / "storage" / "message" / "x"
    other.mkdir(parents=True)
    (other / "y.json").write_text('{"role": "user", "content": "Hi"}')

    assert list(files_in(tmp_path / "share")) == [tmp_path / "share" / "storage"]
    assert list(files_in(tmp_path / "storage")) == [other / "y.json"]
    with stenolog.open(":memory:") as log:
        assert import_file(log, tmp_path / "share").format == "opencode"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (TALK[0].info, "a message of an opencode session"),
        (TALK[0].parts[0], "a part of an opencode message"),
        ({"id": "p", "type": "text", "text": "Hi", "time": {}}, "a part of an opencode message"),
        (session(), "an opencode session without its messages"),
    ],
)
def test_a_single_file_of_the_folder_is_refused_with_the_reason(value: Json, name: str) -> None:
    with pytest.raises(
        UnknownFormatError, match=f"found {name}, which is imported with the folder `storage`"
    ):
        recognise(json.dumps(value).encode())


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


def test_messages_of_the_first_releases_have_their_parts_in_them(log: Log, tmp_path: Path) -> None:
    invocation = {"state": "result", "toolCallId": "c1", "toolName": "bash", "args": {"command": "ls"}}
    assistant = {"modelID": "gpt-x", "providerID": "openai", "system": ["You are opencode."], "cost": 0}
    messages: list[Json] = [
        {"id": "msg_1", "role": "user", "parts": [text("List it.")], "metadata": {"sessionID": "ses_1"}},
        {
            "id": "msg_2",
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {"type": "tool-invocation", "toolInvocation": {**invocation, "result": "a.txt"}},
                {"type": "step-start"},
                text("One file."),
            ],
            "metadata": {
                "sessionID": "ses_1",
                "time": {"created": 2, "completed": 3},
                "tool": {"c1": {"title": "ls", "time": {"start": 1, "end": 2}}},
                "assistant": assistant,
            },
        },
    ]
    storage = tmp_path / "project" / "home-user-shop" / "storage"
    for message in messages:
        file = storage / "session" / "message" / "ses_1" / f"{message['id']}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(message))
    (storage / "session" / "info").mkdir()
    (storage / "session" / "info" / "ses_1.json").write_text(json.dumps({"id": "ses_1", "title": "Listing"}))
    report = taken(log, storage)

    assert [one.name for one in report.conversations] == ["ses_1"]
    assert [getattr(event, "text", "") for event in events(log)] == ["List it.", "", "a.txt", "One file."]
    card = log["ses_1"].settings().card_of("opencode")
    assert (card.persona, card.model) == ("You are opencode.", "gpt-x")


def test_messages_of_the_later_table_are_read_where_there_are_no_others(log: Log, tmp_path: Path) -> None:
    done = {"status": "completed", "input": {"command": "ls"}, "content": [{"type": "text", "text": "a.txt"}]}
    tool = {"type": "tool", "id": "c1", "name": "bash", "state": done, "time": {"created": 3, "completed": 4}}
    thought = {
        "type": "reasoning",
        "id": "r",
        "text": "Hm.",
        "providerMetadata": {"anthropic": {"signature": "s"}},
    }
    model = {"id": "gpt-x", "providerID": "openai"}
    rows: list[tuple[str, Json]] = [
        ("user", {"text": "List it.", "time": {"created": 1}}),
        ("synthetic", {"text": "A reminder.", "time": {"created": 1}}),
        (
            "assistant",
            {
                "agent": "build",
                "model": model,
                "content": [thought, {"type": "text", "id": "t", "text": "I look."}, tool],
                "time": {"created": 2, "completed": 5},
            },
        ),
        ("shell", {"command": "pwd", "output": "/home", "callID": "s", "time": {"created": 6}}),
        ("agent-switched", {"agent": "plan", "time": {"created": 6}}),
        ("compaction", {"summary": "They listed.", "recent": "", "reason": "auto", "time": {"created": 7}}),
        ("user", {"text": "And now?", "time": {"created": 8}}),
    ]
    path = write_database(tmp_path / "opencode.db", [session()], [])
    with closing(sqlite3.connect(path)) as connection:
        for seq, (type, data) in enumerate(rows):
            connection.execute(
                "INSERT INTO session_message VALUES (?,?,?,?,?)",
                (f"msg_{seq}", "ses_1", type, seq, json.dumps(data)),
            )
        connection.commit()
    report = taken(log, path)

    assert [event.kind for event in events(log)] == [
        "user_message",
        "user_message",
        "assistant_message",
        "tool_result",
        "user_message",
        "assistant_message",
        "user_message",
    ]
    assert events(log)[2].parts[0] == ReasoningPart(text="Hm.", provider="anthropic", signature="s")
    assert report.conversations[0].ignored["message/agent-switched"] == 1
    assert shown(log, "List it.", "They listed.", "And now?") == [False, True, True]


def test_a_database_that_is_not_opencodes_is_refused_and_none_is_changed(tmp_path: Path) -> None:
    path = write_database(tmp_path / "opencode.db", [session()], TALK)
    before = path.read_bytes()
    with stenolog.open(":memory:") as log:
        import_file(log, path)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.executescript(TABLES.partition(";")[0])

    assert path.read_bytes() == before
    with pytest.raises(UnknownFormatError, match="with the tables session"):
        recognise(other)


def test_bad_files_are_skipped_by_their_names_and_stop_nothing(log: Log, tmp_path: Path) -> None:
    storage = write_folder(tmp_path / "storage", [session(), session("ses_2", parentID="ses_2")], TALK)
    part = storage / "part" / "msg_3"
    (part / "prt_bad.json").write_text("{not JSON")
    (part / "prt_list.json").write_text("[]")
    (part / "prt_odd.json").write_text(json.dumps({"type": "text", "text": 7, "id": ["x"], "time": "now"}))
    (part / "prt_tool.json").write_text(json.dumps({"id": "prt_tool", "type": "tool", "state": "done"}))
    message = storage / "message" / "ses_1"
    (message / "msg_4.json").write_text(json.dumps({"id": "../../x", "sessionID": "ses_1", "role": "user"}))
    (message / "msg_5.json").write_text(json.dumps({"id": 7, "role": 7, "time": [1], "sessionID": "ses_1"}))
    half = user("msg_6", 9, "@")
    (message / "msg_6.json").write_text(json.dumps(half.info))
    (storage / "part" / "msg_6").mkdir()
    (storage / "part" / "msg_6" / "p.json").write_text(
        json.dumps(half.parts[0]).replace('"@"', '"\\ud800 half"')
    )
    report = taken(log, storage)

    assert [(each.reason.split(": ")[0], each.unit) for each in report.skipped] == [
        ("part/msg_3/prt_bad.json", "file"),
        ("part/msg_3/prt_list.json", "file"),
    ]
    assert report.repaired["lone surrogates"] == 1
    assert "\ufffd half" in [getattr(event, "text", "") for event in events(log)]


def storage_of_samples(folder: Path, form: str) -> Path:
    """Return the storage folder that the samples of a form were taken from, as far as they are there."""
    for file in SAMPLES:
        _, found, path = file.name.partition(f"opencode__{form}__")
        if found:
            target = folder / form / path.replace("__", "/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    return folder / form


@needs_samples
@pytest.mark.parametrize("form", ["storage_legacy", "storage_v2"])
def test_a_real_folder_loses_nothing_and_comes_in_once(form: str, tmp_path: Path) -> None:
    folder = storage_of_samples(tmp_path, form)
    known = {json.loads(file.read_text())["id"] for file in folder.glob("message/**/*.json")}
    for file in folder.glob("part/**/*.json"):  # of some messages, the samples have the parts alone
        part = json.loads(file.read_text())
        if part.get("messageID", file.parent.name) not in known:
            file.unlink()

    if any(folder.glob("part/**/*.json")):
        assert_nothing_lost(folder, said_in_opencode(folder))
        assert_again_adds_nothing(folder)
        assert_accepted(folder)


@needs_samples
@pytest.mark.parametrize("file", SAMPLES, ids=lambda path: path.name[-30:])
def test_a_single_real_file_is_refused_with_the_reason(file: Path) -> None:
    with pytest.raises(UnknownFormatError, match=r"opencode .*which is imported with the folder"):
        recognise(file)


def test_every_api_accepts_every_request_of_a_session_with_a_sub_agent(tmp_path: Path) -> None:
    storage = write_folder(tmp_path / "storage", [session(), CHILD], with_sub_agent())

    assert_nothing_lost(storage, said_in_opencode(storage))
    assert_accepted(storage)


def test_a_session_that_grows_message_by_message_gives_the_same_requests(log: Log, write: Write) -> None:
    messages = with_sub_agent()
    for number in range(1, len(messages) + 1):
        path = write([session(), CHILD], messages[:number])
        import_file(log, path)
    with stenolog.open(":memory:") as whole:
        import_file(whole, path)
        for agent in ("opencode", "explore-" + "ses_child0001"[-8:]):
            bodies = [each["ses_1"].request(agent, api="openai-chat").body for each in (log, whole)]
            assert bodies[0] == bodies[1]
