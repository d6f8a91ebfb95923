"""`stenolog serve --stdio`: a line is a call, or an answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog.apps.serve.waiting import MOST_WAITING
from tests.forked import python
from tests.llms.server import Server
from tests.serve.client import Client, RemoteError, result_of, said
from tests.serve.test_runner import Caller, chat

from .fixed import open_fixed
from .rust import agent as rust
from .story import ANSWER, provider, tell, tell_in_python
from .typescript import agent as typescript


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Client(tmp_path / "talks.db") as opened:
        yield opened


def test_events_are_appended_read_and_kept(client: Client, tmp_path: Path) -> None:
    written = client.call("append", conversation="demo", events=[said("hi", "m1"), said("there", "m2")])
    assert [(each["position"], each["id"], each["kind"]) for each in written["entries"]] == [
        (2, "m1", "user_message"),
        (3, "m2", "user_message"),
    ]
    read = client.call("entries", conversation="demo", after=1)
    assert read == {"position": 3, "entries": written["entries"]}
    assert client.close() == 0
    with stenolog.open(tmp_path / "talks.db") as log:
        assert [entry.digest for entry in log["demo"]][1:] == [each["digest"] for each in read["entries"]]


def test_an_append_that_is_repeated_with_its_ids_writes_once(client: Client) -> None:
    first = client.call("append", conversation="demo", events=[said("hi", "m1")])
    assert client.call("append", conversation="demo", events=[said("hi", "m1")]) == first
    with pytest.raises(RemoteError) as other:
        client.call("append", conversation="demo", events=[said("ho", "m1")])
    assert other.value.type == "DuplicateIdError"


def test_who_expected_another_position_is_told_both(client: Client) -> None:
    client.call("append", conversation="demo", events=[said("hi", "m1")])
    with pytest.raises(RemoteError, match="expected position 1, but the log stands at 2") as late:
        client.call("append", conversation="demo", events=[said("ho", "m2")], expected=1)
    assert late.value.data == {
        "type": "VersionConflictError",
        "message": "conversation 'demo': expected position 1, but the log stands at 2",
        "expected": 1,
        "found": 2,
    }


def test_a_call_that_waits_keeps_no_other_waiting(client: Client) -> None:
    waiting = client.send("tail", conversation="demo", after=0, wait=60)
    client.call("append", conversation="demo", events=[said("hi", "m1")])
    assert [each["kind"] for each in result_of(waiting)["entries"]] == ["mode_switch", "user_message"]


def test_however_many_calls_wait_another_is_answered_and_one_too_many_is_told_so(client: Client) -> None:
    waiting = [client.send("tail", conversation="demo", after=50, wait=60) for _ in range(MOST_WAITING + 3)]
    assert client.call("about")["protocol"] == 1
    refused = [answer.get_nowait()["error"]["data"]["type"] for answer in waiting if not answer.empty()]
    assert refused == ["TooManyCallsError"] * 3


def test_writes_to_one_conversation_are_done_in_the_order_in_which_they_came(client: Client) -> None:
    answers = [client.send("append", conversation="demo", events=[said(f"{n}", f"m{n}")]) for n in range(200)]
    assert [result_of(answer)["position"] for answer in answers] == [*range(2, 202)]


def test_at_the_end_of_the_input_the_calls_that_wait_end_too(client: Client) -> None:
    waiting = client.send("tail", conversation="demo", after=0, wait=300)
    assert client.close() == 0
    assert result_of(waiting) == {"position": 0, "entries": []}


def test_what_was_sent_before_the_end_of_the_input_is_done(client: Client, tmp_path: Path) -> None:
    answers = [client.send("append", conversation="demo", events=[said(f"{n}", f"m{n}")]) for n in range(50)]
    client.close()
    assert {result_of(answer)["entries"][0]["id"] for answer in answers} == {f"m{n}" for n in range(50)}
    with stenolog.open(tmp_path / "talks.db") as log:
        assert len(log["demo"]) == 51


@pytest.mark.parametrize(
    ("line", "type", "words"),
    [
        (b"not json", "ParseError", "expected a line of JSON"),
        (b'"\\ud800"', "ParseError", "expected a line of JSON"),
        (b"[1]", "InvalidCallError", "expected an object"),
        (b'{"id": null, "method": "apend"}', "MethodNotFoundError", "did you mean 'append'?"),
        (b'{"id": null, "method": "append", "params": 5}', "InvalidParamsError", "expected an object"),
        (
            b'{"id": null, "method": "append", "params": {}}',
            "InvalidParamsError",
            "/conversation: expected a",
        ),
        (
            b'{"id": null, "method": "entries", "params": {"conversation": "x", "afer": 1}}',
            "InvalidParamsError",
            "/afer: no such field",
        ),
        (
            b'{"id": null, "method": "entries", "params": {"conversation": "x", "after": "1"}}',
            "InvalidParamsError",
            "/after: expected a valid integer, found '1'",
        ),
        (
            b'{"id": null, "method": "append", "params": {"conversation": "x", "events":'
            b' [{"kind": "user_message", "event": {"txt": "hi"}}]}}',
            "InvalidEventError",
            "/events/0: user_message: no such field: txt",
        ),
        (
            b'{"id": null, "method": "request", "params": {"conversation": "x", "agent": "a", "at": 5}}',
            "ConversationNotFoundError",
            "'x': no such conversation",
        ),
    ],
)
def test_a_line_that_cannot_be_done_is_answered_with_the_reason(
    client: Client, line: bytes, type: str, words: str
) -> None:
    client.write(line)
    error = client.unasked.get(timeout=30)["error"]
    assert error["data"]["type"] == type
    assert words in error["message"]
    assert client.call("about")["protocol"] == 1


def test_a_call_without_an_id_is_done_and_not_answered(client: Client) -> None:
    client.write(
        b'{"method": "append", "params": {"conversation": "demo", "events":'
        b' [{"kind": "user_message", "event": {"text": "hi"}}]}}'
    )
    assert (
        client.call("tail", conversation="demo", after=1)["entries"][0]["event"]["parts"][0]["text"] == "hi"
    )
    assert client.unasked.empty()


def test_a_line_may_hold_megabytes_and_a_long_result_is_read_in_parts(client: Client) -> None:
    words = "ä" * 3_000_000
    client.call("join", conversation="demo", agent="coder", model="gpt-5.2")
    client.call("append", conversation="demo", events=[said("look", "m1")])
    call = {"type": "tool_call", "id": "c1", "name": "look", "arguments": "{}"}
    answer = {"kind": "assistant_message", "event": {"agent": "coder", "parts": [call]}, "id": "a1"}
    client.call("append", conversation="demo", events=[answer])
    claimed = client.call("claim", conversation="demo", agents=["coder"])["claimed"]
    assert [(each["effect"], each["call"]["name"]) for each in claimed] == [("tool 3/0", "look")]
    outcome = {"output": {"text": words}}
    client.call("settle", conversation="demo", fence=claimed[0]["fence"], outcome=outcome, id="r1")
    [result] = client.call("entries", conversation="demo", after=3)["entries"]
    assert len(str(result)) < 20_000
    alias = aliases(client)[0]
    part = client.call("output", conversation="demo", alias=alias, offset=2_999_000)
    assert (part["text"], part["total"], part["next"]) == ("ä" * 1_000, 3_000_000, None)


def aliases(client: Client) -> list[str]:
    """Return the aliases of large outputs that the next request names."""
    text = client.call("request", conversation="demo", agent="coder", with_text=True)["text"]
    return re.findall(r"@state/[\w./-]*\w", text)


def test_what_a_plugin_prints_stands_on_stderr_and_not_between_the_answers(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text("print('hello')\ndef register():\n    print('again')\n")
    told = {"PYTHONPATH": str(tmp_path), "STENOLOG_PLUGINS": "noisy:register"}
    command = python("-m", "stenolog", "serve", "--stdio", "--db", str(tmp_path / "talks.db"))
    line = b'{"jsonrpc": "2.0", "id": 1, "method": "about"}'
    done = subprocess.run(command, input=line, env={**os.environ, **told}, capture_output=True, timeout=60)
    assert json.loads(done.stdout)["id"] == 1
    assert done.stderr.decode().split() == ["hello", "again"]


def test_two_services_write_to_one_file_and_lose_nothing(tmp_path: Path) -> None:
    with Client(tmp_path / "talks.db") as one, Client(tmp_path / "talks.db") as two:

        def write(client: Client, name: str) -> None:
            for number in range(100):
                client.call("append", conversation="demo", events=[said(f"{number}", f"{name}{number}")])

        writers = [threading.Thread(target=write, args=pair) for pair in ((one, "a"), (two, "b"))]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        entries = one.call("entries", conversation="demo", after=1)["entries"]
    for name in ("a", "b"):
        mine = [each["id"] for each in entries if each["id"].startswith(name)]
        assert mine == [f"{name}{number}" for number in range(100)]
    assert len(entries) == 200


def test_after_a_kill_at_any_moment_the_same_ids_make_the_log_whole(tmp_path: Path) -> None:
    wanted = [said(f"{number}", f"m{number}") for number in range(60)]
    done = 0
    while done < len(wanted):
        client = Client(tmp_path / "talks.db")
        # What is under way when the service is killed may be written, or not: the next one is sent it again.
        sent = [client.send("append", conversation="demo", events=[each]) for each in wanted[done:]]
        for answer in sent[:17]:
            result_of(answer)
            done += 1
        client.kill()
        client.close()
    with stenolog.open(tmp_path / "talks.db") as log:
        ids = [entry.id for entry in log["demo"]][1:]
    assert sorted(ids) == sorted(each["id"] for each in wanted)


# The same conversation from Python's own API and from the programs of other languages: the same bytes.


PROGRAMS: dict[str, Callable[[], Sequence[str]]] = {
    "rust": rust,
    "typescript": typescript,
}
"""How the program of each language is built, and the command that runs it."""


def told(server: Server, db: Path) -> tuple[str, list[bytes]]:
    """Return the log as JSONL, and the bytes that the provider was sent."""
    with open_fixed(db) as log:
        return log["story"].export("jsonl"), [each.content for each in server.received]


@pytest.mark.parametrize("language", [pytest.param("rust", marks=pytest.mark.slow), "typescript"])
def test_the_log_and_the_requests_have_the_same_bytes_as_from_python(language: str, tmp_path: Path) -> None:
    with provider() as server, open_fixed(tmp_path / "python.db") as log:
        assert tell_in_python(log, f"{server.url}/v1") == ANSWER
        expected = told(server, tmp_path / "python.db")
    program = PROGRAMS[language]()
    with provider() as server:
        code, output = tell(program, tmp_path / "other.db", f"{server.url}/v1")
        assert (code, output.rstrip("\r\n")) == (0, ANSWER)
        assert told(server, tmp_path / "other.db") == expected
    assert len(expected[1]) == 2
    assert {each.headers["content-type"] for each in server.received} == {"application/json"}


# Tools under names that providers refuse: programs in other languages are asked for them by their own.


TOOL = {"name": "fs.read", "description": "Read.", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Caller]:
    with stenolog.open(tmp_path / "talks.db") as log:
        caller = Caller(log)
        caller("join", agent="coder", model="gpt-5.2", tools=[TOOL])
        event = {"text": "Read it.", "to": ["coder"]}
        caller("append", events=[{"kind": "user_message", "event": event}])
        yield caller
        caller.service.close()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return an answer that calls the tool by the name that was sent."""
    made = chat(calls=("c1",))
    [sent] = request["body"]["tools"]
    made["choices"][0]["message"]["tool_calls"][0]["function"]["name"] = sent["function"]["name"]
    return made


def test_a_claimed_call_has_the_name_on_the_card(call: Caller) -> None:
    [work] = call.claim()
    call("settle", fence=work["fence"], outcome={"response": answer(work["request"])})
    [tool] = call.claim()
    assert tool["call"]["name"] == "fs.read"


def test_so_has_the_answer_in_a_loop_of_ones_own(call: Caller) -> None:
    request = call("request", agent="coder")
    written = call("answer", agent="coder", receipt=request["receipt"], outcome={"response": answer(request)})
    [part] = written["entries"][0]["event"]["parts"]
    assert part["name"] == "fs.read"
