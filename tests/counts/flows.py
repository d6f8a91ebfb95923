"""The flows whose costs the suite limits; run as a program, it prints the counts of one as JSON.

python -m tests.counts.flows FOLDER FLOW
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests.counts import counters

if __name__ == "__main__":
    counters.installed()  # never in the process of the tests: others would read through its connections
Counts = dict[str, int]
ROOT = Path(__file__).parents[2]
TURNS = 250
"""Turns of four entries in the log that a new process opens."""


def import_stenolog(folder: Path) -> Counts:
    """Import the package, and the names at its root."""

    def work() -> None:
        import stenolog

        for name in stenolog.__all__:
            getattr(stenolog, name)

    return counters.counted(work)


def append(folder: Path) -> Counts:
    """Append one message to a conversation that has some."""
    import stenolog

    with stenolog.open(folder / "append.db") as log:
        conversation = log["talk"]
        conversation.extend([stenolog.UserMessage("hello")] * 3)
        conversation.append(stenolog.UserMessage("warm"))
        again = stenolog.UserMessage("again")
        return counters.least([counters.counted(lambda: conversation.append(again)) for _ in range(3)])


def next_request(folder: Path) -> Counts:
    """Build the request behind one more message."""
    import stenolog

    with stenolog.open(folder / "next.db") as log:
        conversation = log["talk"]
        conversation.join("coder", model="gpt-5.2")

        def run() -> Counts:
            conversation.append(stenolog.UserMessage("do it"))
            return counters.counted(lambda: conversation.request("coder"))

        return counters.least([run() for _ in range(5)][2:])


def long_log(folder: Path) -> Counts:
    """Make the log for `first_request`: a thousand entries, opened and asked once."""
    import stenolog
    from stenolog import AssistantMessage, ToolCall, ToolResult, UserMessage

    def turn(number: int) -> list[stenolog.Event]:
        call = ToolCall(id=f"call_{number}", name="look", arguments='{"at":1}')
        return [
            UserMessage(f"question {number}"),
            AssistantMessage(agent="coder", parts=(call,)),
            ToolResult(call_id=f"call_{number}", text="found it " * 20),
            AssistantMessage(agent="coder", text=f"answer {number}"),
        ]

    with stenolog.open(folder / "long.db") as log:
        conversation = log["talk"]
        conversation.join("coder", model="gpt-5.2")
        for number in range(TURNS):
            conversation.extend(turn(number))
        conversation.request("coder")
    return {}


def first_request(folder: Path) -> Counts:
    """Open a log of a thousand entries in a new process, and build one request."""
    import stenolog

    def work() -> None:
        with stenolog.open(folder / "long.db") as log:
            conversation = log["talk"]
            conversation.append(stenolog.UserMessage("go on"))
            conversation.request("coder")

    return counters.counted(work)


def team_turn(folder: Path) -> Counts:
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
        return counters.least([counters.counted(work) for _ in range(turns - 1)])


def import_session(folder: Path) -> Counts:
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

    return counters.least([run() for _ in range(3)])


def tapped_exchange(folder: Path) -> Counts:
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

        return counters.least([run() for _ in range(5)][2:])


def log_command(folder: Path) -> Counts:
    """List a conversation from the command line, its imports too."""
    import contextlib
    import io

    def work() -> None:
        from stenolog.apps.cli import run

        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
            run(["log", "talk", "--db", str(folder / "append.db")])

    return counters.counted(work)


FLOWS: dict[str, Callable[[Path], Counts]] = {
    flow.__name__: flow
    for flow in (
        import_stenolog,
        append,
        next_request,
        long_log,
        first_request,
        team_turn,
        import_session,
        tapped_exchange,
        log_command,
    )
}
"""In an order in which each finds the files of those before it."""


if __name__ == "__main__":
    print(json.dumps(FLOWS[sys.argv[2]](Path(sys.argv[1]))))
