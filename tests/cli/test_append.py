"""Events appended from the shell: in words, as JSON, as an export's lines, all of them or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stenolog import open as open_log
from stenolog.events import AssistantMessage, UserMessage
from tests.forked import python

Cli = Callable[..., Any]
HI = '{"kind": "user_message", "text": "Hi", "id": "m1"}'


def events(name: str) -> list[Any]:
    with open_log("talks.db") as log:
        return [entry.event for entry in log[name].entries() if entry.id != "opening"]


def test_a_persons_words_are_appended_for_whom_they_are(demo: Cli) -> None:
    ran = demo("append", "demo", "--user", "And now?", "--to", "coder", "--author", "Ann")

    assert (ran.status, ran.out, ran.err) == (0, "✓ demo  1 entry at 13\n", "")
    assert events("demo")[-1] == UserMessage(text="And now?", to=("coder",), author="Ann")


def test_an_answer_and_a_message_of_the_system_are_appended_in_words(cli: Cli) -> None:
    first = cli("append", "talk", "--system", "The build is red.")
    cli("append", "talk", "--assistant", "coder", "I see.")

    assert first.err == "· talk is a new conversation\n"
    assert events("talk") == [
        UserMessage(text="The build is red.", author_kind="system"),
        AssistantMessage(agent="coder", text="I see."),
    ]


def test_words_come_from_stdin_as_they_are_but_for_the_last_line_break(piped: Cli) -> None:
    piped("one\n\n  two\n", "append", "talk", "--user", "-")

    assert events("talk") == [UserMessage(text="one\n\n  two")]


@pytest.mark.parametrize(
    "written",
    [
        HI,
        '{"topic": "user_message@1", "id": "m1", "event": {"parts": [{"type": "text", "text": "Hi"}]}}',
        '{"kind": "user_message", "id": "m1", "payload": "{\\"text\\": \\"Hi\\"}"}',
        '{"kind": "user_message", "id": "m1", "payload_base64": "eyJ0ZXh0IjogIkhpIn0="}',
    ],
)
def test_an_event_is_json_in_any_form_in_which_it_is_shown(cli: Cli, written: str) -> None:
    assert cli("append", "talk", written).status == 0
    assert cli("append", "talk", HI).out == "· talk  0 new entries (1 already there)\n"
    assert events("talk") == [UserMessage(text="Hi")]


def test_an_export_or_what_json_shows_is_appended_and_adds_nothing_again(demo: Cli, piped: Cli) -> None:
    exported = demo("export", "demo").out
    shown = demo("log", "demo", "--json", "--all").data["entries"]

    assert piped(exported, "append", "copy").out == "✓ copy  12 entries at 1-12\n"
    assert piped(exported, "append", "copy").out == "· copy  0 new entries (12 already there)\n"
    again = piped("\n".join(map(json.dumps, shown)), "append", "copy")
    assert again.out == "· copy  0 new entries (12 already there)\n"
    assert events("copy") == events("demo")
    with open_log("talks.db") as log:
        assert [each.time for each in log["copy"]] == [each.time for each in log["demo"]]


def test_a_list_and_an_object_over_several_lines_are_read_too(piped: Cli) -> None:
    other = {"kind": "user_message", "text": "Ho"}
    piped(json.dumps([json.loads(HI), other], indent=2), "append", "talk")
    piped(json.dumps(other, indent=2), "append", "talk")

    assert [event.text for event in events("talk")] == ["Hi", "Ho", "Ho"]


def test_json_shows_what_stands_there_and_what_was_new(cli: Cli) -> None:
    cli("append", "talk", HI)

    ran = cli("append", "talk", HI, '{"kind": "user_message", "text": "Ho"}', "--json")

    data = ran.data
    assert (data["conversation"], data["appended"], data["already"]) == ("talk", 1, 1)
    assert [entry["position"] for entry in data["entries"]] == [2, 3]


def test_an_id_with_other_words_is_refused(cli: Cli) -> None:
    cli("append", "talk", HI)

    ran = cli("append", "talk", "--user", "Ho", "--id", "m1")

    assert (ran.status, ran.err) == (2, "✗ 'talk': the id 'm1' stands at position 2 with other content\n")


def test_an_event_is_appended_at_the_position_that_is_expected_alone(cli: Cli) -> None:
    cli("append", "talk", HI, "--expected", "0")

    ran = cli("append", "talk", "--user", "Ho", "--expected", "0")

    assert (ran.status, len(events("talk"))) == (5, 1)
    assert "expected position 0, but the log stands at 2" in ran.err
    assert cli("append", "talk", HI, "--expected", "0").status == 0


def test_a_mode_switch_says_at_which_position_it_was_decided(cli: Cli) -> None:
    cli("append", "talk", HI)
    switch = '{"kind": "mode_switch", "title": "Bread"}'

    assert "or --expected in a shell" in cli("append", "talk", switch).err
    assert cli("append", "talk", switch, "--expected", "2").status == 0


def test_a_time_is_that_of_the_events_that_name_none(cli: Cli) -> None:
    dated = '{"kind": "user_message", "text": "Ho", "at": "2026-01-02T03:04:05Z"}'
    cli("append", "talk", HI, dated, "--time", "2026-11-20T09:30")

    with open_log("talks.db") as log:
        times = [f"{entry.time:%Y-%m-%d %H:%M}" for entry in log["talk"]]
    assert times[1:] == ["2026-11-20 09:30", "2026-01-02 03:04"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2: expected a JSON object, found '{'"),
        ("[]", "line 2: expected a JSON object, found []"),
        ('{"text": "Hi"}', "line 2: expected a kind, one of user_message, assistant_message"),
        ('{"kind": "user_mesage"}', "found \"user_mesage\"; did you mean 'user_message'?"),
        ('{"topic": "user_message@9", "event": {}}', "line 2: /topic: expected one of user_message@1"),
        ('{"kind": "user_message", "txt": "Hi"}', "user_message: no such field: txt; did you mean text?"),
        ('{"kind": "user_message", "event": {}, "idd": "x"}', "no such field: idd; did you mean id?"),
        ('{"kind": "user_message", "event": {}, "payload": ""}', "found event and payload"),
        ('{"kind": "user_message", "event": 5}', "/event: expected a JSON object, found 5"),
        ('{"kind": "user_message", "payload": "no"}', "/payload: expected a JSON object, found 'no'"),
        ('{"kind": "user_message", "payload_base64": "?"}', '/payload_base64: expected Base64, found "?"'),
        ('{"kind": "user_message", "text": 5}', "user_message: /parts/0: expected a valid string, found 5"),
        ('{"kind": "user_message", "text": "a", "parts": [{}]}', "user_message: give parts, or text"),
        ('{"kind": "user_message", "parts": [{"type": "tex"}]}', "line 2: user_message: /parts/0: no such"),
        ('{"kind": "assistant_message", "text": "a"}', "/agent: expected a value, found none"),
        ('{"kind": "user_message", "text": "a", "id": 5}', "line 2: /id: expected text, found 5"),
        ('{"kind": "user_message", "text": "a", "id": " "}', "entry id: expected printable text"),
        ('{"kind": "user_message", "text": "a", "at": "noon"}', "/at: expected a time as 2026"),
        ('{"kind": "user_message", "text": "a", "at": "2026-01-01T09:00"}', "/at: expected a time as"),
        ('{"kind": "user_message", "meta": {"a": NaN}}', "line 2: expected a JSON object, found"),
        ('{"kind": "tool_result", "call_id": "c", "blob": "' + "0" * 64 + '"}', "expected the blob 000"),
        ('{"blob": "' + "0" * 64 + '", "base64": "SGk="}', "line 2: /blob: expected 3639efcd08abb273b1"),
        ('{"blob": "", "base64": "?"}', "line 2: /base64: expected the bytes of a blob as Base64"),
        ('{"topic": "user_message@1", "erased": ""}', "found an entry whose words were erased"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_and_nothing_is_appended(piped: Cli, line: str, why: str) -> None:
    ran = piped(f"{HI}\n{line}\n", "append", "talk")

    assert (ran.status, ran.out) == (2, "")
    assert why in ran.err
    assert not piped("", "ls", "--json").data


def test_a_blob_comes_before_the_event_that_names_it(piped: Cli) -> None:
    blob = {"blob": "3639efcd08abb273b1619e82e78c29a7df02c1051b1820e99fc395dcaa3326b8", "base64": "SGk="}
    named = {"kind": "tool_result", "call_id": "c", "blob": blob["blob"]}

    assert piped("\n".join(map(json.dumps, [blob, named])), "append", "talk").status == 0
    assert piped(json.dumps(named), "append", "talk").status == 0
    with open_log("talks.db") as log:
        assert log.blobs[blob["blob"]] == b"Hi"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--user", "a", "--system", "b"], "expected one of --user, --system, --assistant, found 2"),
        (["--user", "a", HI], "expected either words, as by --user, or EVENTs; found both"),
        (["--user", " "], "--user: expected words, found none"),
        (["--to", "coder", HI], "--to goes with --user and the like"),
        (["--author", "Ann", "--assistant", "coder", "a"], "--author goes with --user or --system"),
        (["--id", "x", HI, HI], "--id is for one event"),
        ([], "expected an event, found none"),
        (["--user", "a", "--time", "noon"], "expected a day or a time"),
        (["--user", "-", "--id", "x"], "--user: expected words, found none"),
    ],
)
def test_what_cannot_be_meant_is_said(piped: Cli, arguments: list[str], why: str) -> None:
    ran = piped("", "append", "talk", *arguments)

    assert (ran.status, why in " ".join(ran.err.split())) == (2, True), ran.err


def test_a_terminal_is_told_what_to_give(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)

    assert "expected --user TEXT or the like" in cli("append", "talk").err


def test_many_processes_append_the_same_line_and_it_stands_there_once(tmp_path: Path, cli: Cli) -> None:
    command = python("-m", "stenolog", "append", "talk", HI)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    running = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, env=env) for _ in range(3)]
    assert [process.communicate() and process.returncode for process in running] == [0, 0, 0]

    assert events("talk") == [UserMessage(text="Hi")]
