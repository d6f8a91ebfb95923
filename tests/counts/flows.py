"""The flows whose costs the suite limits; run as a program, it prints the counts of one as JSON, by row.

python -m tests.counts.flows FOLDER FLOW
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.counts import counters

if TYPE_CHECKING:
    import stenolog
    from tests.postgres.server import Server

if __name__ == "__main__":
    counters.installed()  # never in the process of the tests: others would read through its connections
Counts = dict[str, int]
Rows = dict[str, Counts]
"""Counts by the row of `tests/costs.toml` that they are held to."""
ROOT = Path(__file__).parents[2]
APIS = ("anthropic", "gemini", "openai-chat", "openai-responses")
LONG = 1_000
"""Entries in the log that a new process opens."""
POLICIES: dict[str, Callable[[Any], Any]] = {
    "": lambda context: None,
    " of the last 50": lambda context: context.LastN(50),
    " under 32,000 tokens": lambda context: context.Budget(32_000),
    " since its last turn": lambda context: context.SinceLastTurn(),
    " with a reminder": lambda context: context.Reminder(5),
    " of what it missed": lambda context: context.MissedMessages(),
}
"""One policy of each kind, made of `stenolog.context`."""
MANY = 32
"""Conversations to which tasks append at once."""
WAITING = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def import_stenolog(folder: Path) -> Rows:
    """Import the package, and the names at its root."""

    def work() -> None:
        import stenolog

        for name in stenolog.__all__:
            getattr(stenolog, name)

    return {"import stenolog": counters.counted(work)}


def append(folder: Path) -> Rows:
    """Append one message to a conversation that has some."""
    return {"append": appended(folder / "append.db")}


def append_expected(folder: Path) -> Rows:
    """Append one message at a position that the caller expects."""
    return {"append, expected": appended(folder / "expected.db", expecting=True)}


def appended(file: Path, *, expecting: bool = False) -> Counts:
    import stenolog

    with stenolog.open(file) as log:
        conversation = log["talk"]
        conversation.extend([stenolog.UserMessage("hello")] * 3)
        conversation.append(stenolog.UserMessage("warm"))
        again = stenolog.UserMessage("again")

        def run() -> Counts:
            expected = conversation.position
            if expecting:
                return counters.counted(lambda: conversation.append(again, expected=expected))
            return counters.counted(lambda: conversation.append(again))

        return counters.least([run() for _ in range(3)])


def first_append(folder: Path) -> Rows:
    """Open a log in a new process, and append one message."""
    import stenolog

    def work() -> None:
        with stenolog.open(folder / "append.db") as log:
            log["talk"].append(stenolog.UserMessage("again"))

    return {"append, first of a process": counters.counted(work)}


def next_requests(folder: Path) -> Rows:
    """Build the request after an answer and a message: for each API, with a budget or not, at three sizes."""
    import stenolog
    from stenolog import context

    answer, question = stenolog.AssistantMessage(agent="coder", text="done"), stenolog.UserMessage("go on")
    policies = {"": None, " under 32,000 tokens": context.Budget(32_000)}
    found: Rows = {}
    with stenolog.open(folder / "next.db") as log:
        looking_back = {kind: POLICIES[kind](context) for kind in (*POLICIES,)[3:]}
        for size in (100, 1_000, 10_000):
            conversation = talk(log, f"talk of {size}", size)
            more = product(("openai-chat",), looking_back.items())
            for api, (words, policy) in (*product(APIS, policies.items()), *more):
                runs = []
                for _ in range(6):
                    conversation.extend([answer, question])
                    ask = partial(conversation.request, "coder", api=api, policy=policy)
                    counters.wait_for_threads()  # the snapshot of a first request is written in one
                    runs.append(counters.counted(ask))
                found[f"request, {api}{words}, {size:,} entries"] = counters.least(runs[2:])
    return found


def talk(log: stenolog.Log, name: str, size: int) -> stenolog.Conversation:
    """Return a conversation of so many entries: questions, calls, results, answers."""
    from stenolog import AssistantMessage, ToolCall, ToolResult, UserMessage

    conversation = log[name]
    conversation.join("coder", model="gpt-5.2")
    events: list[stenolog.Event] = []
    for number in range(size // 4):
        call = ToolCall(id=f"call_{number}", name="look", arguments='{"at":1}')
        events += (
            UserMessage(f"question {number}"),
            AssistantMessage(agent="coder", parts=(call,)),
            ToolResult(call_id=call.id, text="found it " * 20),
            AssistantMessage(agent="coder", text=f"answer {number}"),
        )
    conversation.extend(events)
    return conversation


def long_log(folder: Path) -> Rows:
    """Make the log for the flows below, opened and asked once under each policy."""
    import stenolog
    from stenolog import context

    with stenolog.open(folder / "long.db") as log:
        conversation = talk(log, "talk", LONG)
        for policy in POLICIES.values():
            conversation.request("coder", policy=policy(context))
    return {}


def first_request(folder: Path) -> Rows:
    """Open a log of a thousand entries in a new process, and build one request."""
    import stenolog

    def work() -> None:
        with stenolog.open(folder / "long.db") as log:
            conversation = log["talk"]
            conversation.append(stenolog.UserMessage("go on"))
            conversation.request("coder")

    return {"request, first of a process": counters.counted(work)}


def first_look(folder: Path, kind: str) -> Rows:
    """Open a log of a thousand entries in a new process, and build a request without appending."""
    import stenolog
    from stenolog import context

    policy = POLICIES[kind](context)

    def work() -> None:
        with stenolog.open(folder / "long.db") as log:
            log["talk"].request("coder", policy=policy)

    return {f"request{kind}, first of a reader": counters.counted(work)}


def page(folder: Path) -> Rows:
    """Show a conversation of a thousand entries in the browser, for the second time."""
    from starlette.testclient import TestClient

    import stenolog

    with stenolog.open(folder / "long.db") as log:
        web = TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1")

        def work() -> None:
            assert web.get("/c/talk").status_code == 200

        work()
        return {"page of a conversation": counters.least([counters.counted(work) for _ in range(4)])}


def team_turn(folder: Path) -> Rows:
    """Run one turn of a team: model, tool, model."""
    import stenolog
    from stenolog import Agent, Team, ToolCall
    from stenolog.models import Scripted

    def shell(cmd: str) -> str:
        """Run."""
        return "12 passed"

    call = ToolCall(id="c1", name="shell", arguments='{"cmd":"pytest"}')
    turns = 10
    answers = [answer for _ in range(turns) for answer in ([call], "All tests pass now.")]
    team = Team([Agent("coder", llm=Scripted(*answers), persona="You mend.", tools=[shell])])
    with stenolog.open(folder / "team.db") as log:
        number = count()

        def work() -> None:
            team.ask_sync(log[f"talk-{next(number)}"], "Which test fails?")

        work()
        return {"team turn": counters.least([counters.counted(work) for _ in range(turns - 1)])}


def import_session(folder: Path) -> Rows:
    """Import a session of fifteen entries, its format known."""
    import stenolog
    from stenolog import importers

    session = ROOT / "docs/examples/session.jsonl"
    with stenolog.open(folder / "first.db") as log:
        importers.import_file(log, session)
    number = count()

    def run() -> Counts:
        with stenolog.open(folder / f"import-{next(number)}.db") as log:
            return counters.counted(lambda: importers.import_file(log, session))

    return {"import of fifteen entries": counters.least([run() for _ in range(3)])}


def tapped_exchange(folder: Path) -> Rows:
    """Record one exchange of a session behind the tap."""
    import stenolog
    from tests.recording.given import Tap, anthropic, assistant, user

    with stenolog.open(folder / "tap.db") as log:
        tap = Tap(log)
        messages = [user("How many loaves?")]

        def run() -> Counts:
            body = anthropic(*messages)
            found = counters.counted(lambda: tap.send(body))
            messages.extend([assistant("Done."), user(f"And on day {len(messages)}?")])
            return found

        return {"tapped exchange": counters.least([run() for _ in range(5)][2:])}


def log_command(folder: Path) -> Rows:
    """List the entries of a conversation from the command line, its imports too."""
    return {"stenolog log": commanded("log", "talk", "--db", str(folder / "append.db"))}


def ls_command(folder: Path) -> Rows:
    """List the conversations from the command line, its imports too."""
    return {"stenolog ls": commanded("ls", "--db", str(folder / "append.db"))}


def postgres_appends(folder: Path) -> Rows:
    """Append one message to a log in PostgreSQL, and many that waited for the same turn."""
    import stenolog
    from stenolog.adapters.store.postgres.connection.datastore import LogConnection
    from tests.postgres.server import DURABLE, programs, running

    wait = LogConnection.wait

    def counted_wait(*arguments: Any) -> Any:
        counters.FOUND["round_trips"] += 1
        return wait(*arguments)

    LogConnection.wait = counted_wait  # type: ignore[assignment]
    bin = programs()
    assert bin is not None
    with (
        running(bin, DURABLE) as server,
        stenolog.open(server.address()) as log,
        stenolog.open(server.address(notify="off")) as silent,  # a NOTIFY is another round trip, now and then
    ):
        return {
            "append to PostgreSQL": appended_to(server, log),
            "append to PostgreSQL, first of a process": counters.least(
                [first_appended_to(silent.recorder.address) for _ in range(3)]
            ),
            f"append to PostgreSQL, {MANY} at once": appended_together(server, silent),
        }


def appended_to(server: Server, log: stenolog.Log) -> Counts:
    """Return the counts of one append, and the bytes of the server's write-ahead log."""
    import psycopg

    from stenolog import UserMessage

    conversation, again = log["talk"], UserMessage("again")
    conversation.extend([UserMessage("hello")] * 5)
    with psycopg.connect(server.conninfo, autocommit=True) as beside:

        def written() -> int:
            (bytes,) = beside.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone() or (
                0,
            )
            return int(bytes)

        def run() -> Counts:
            before = written()
            found = counters.counted(lambda: conversation.append(again))
            return {**found, "wal_bytes": written() - before}

        return counters.least([run() for _ in range(9)])


def first_appended_to(address: str) -> Counts:
    """Return the statements of the first append to a conversation that others began."""
    import stenolog

    with stenolog.open(address) as log:
        assert "talk" in log  # so that there is a connection
        before = counters.FOUND["round_trips"]
        log["talk"].append(stenolog.UserMessage("again"))
        return {"round_trips": counters.FOUND["round_trips"] - before}


def appended_together(server: Server, log: stenolog.Log) -> Counts:
    """Return the statements of appends that are queued while the first waits for another process's turn."""
    import threading

    import psycopg

    from stenolog.adapters.store.contract.values import Stream
    from stenolog.adapters.store.postgres.connection.datastore import turns_of
    from tests.postgres.load import said

    streams = [Stream(f"talk {number}") for number in range(MANY)]
    for stream in streams:
        log.recorder.append([said("first")], stream, None)
    turn, numbers = (turns_of("stenolog"), streams[0].key), count()

    def run(beside: psycopg.Connection) -> Counts:
        before, woken = counters.FOUND["round_trips"], [threading.Event() for _ in streams]
        with beside.transaction():
            beside.execute("SELECT pg_advisory_xact_lock(%s::int, %s::int)", turn)
            for stream, event in zip(streams, woken, strict=True):
                log.recorder.insert_later([said(f"entry {next(numbers)}")], event.set, stream=stream)
                while stream is streams[0] and not beside.execute(WAITING).fetchone():
                    pass
        for event in woken:
            event.wait()
        return {"round_trips": counters.FOUND["round_trips"] - before}

    with psycopg.connect(server.conninfo) as beside:
        return counters.least([run(beside) for _ in range(5)])


def commanded(*arguments: str) -> Counts:
    import contextlib
    import io

    def work() -> None:
        from stenolog.apps.cli import run

        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
            run([*arguments])

    return counters.counted(work)


FLOWS: dict[str, Callable[[Path], Rows]] = {
    "import_stenolog": import_stenolog,
    "append": append,
    "append_expected": append_expected,
    "first_append": first_append,
    "log_command": log_command,
    "ls_command": ls_command,
    "next_requests": next_requests,
    "long_log": long_log,
    "first_request": first_request,
    "page": page,
    "team_turn": team_turn,
    "import_session": import_session,
    "tapped_exchange": tapped_exchange,
    **{f"first_look{kind}": partial(first_look, kind=kind) for kind in POLICIES},
}
"""In an order in which each finds the files of those before it."""
ON_POSTGRES: dict[str, Callable[[Path], Rows]] = {postgres_appends.__name__: postgres_appends}
"""Those that need the programs of a server."""


if __name__ == "__main__":
    print(json.dumps({**FLOWS, **ON_POSTGRES}[sys.argv[2]](Path(sys.argv[1]))))
