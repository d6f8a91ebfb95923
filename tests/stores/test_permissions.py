"""Everything that is written is readable by its owner alone."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stenolog
from stenolog import (
    Agent,
    AssistantMessage,
    Entry,
    Event,
    LlmError,
    Log,
    Team,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.adapters.conversation.queries.outputs import store_large
from stenolog.adapters.store.sqlite import copies
from stenolog.adapters.store.sqlite.liveness import LivenessLock
from stenolog.domain.errors import NotADatabaseError
from stenolog.domain.redaction import REDACTED, redacted, without
from stenolog.domain.values import CallRef, Control
from stenolog.errors import InvalidEventError
from stenolog.events import dump_event
from stenolog.models import Scripted
from stenolog.parts import ProviderPart
from stenolog.testing import examples
from stenolog.tools import tool
from tests.cli.conftest import cli
from tests.file_bytes import files_with
from tests.stores.conftest import path

__all__ = ["cli", "path"]
SIDECARS = {"-wal", "-shm", "-lock", "-checkpoints", "-search", "-runner-one"}


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of each file in a folder, by its path there."""
    files = (each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): stat.S_IMODE(each.stat().st_mode) for each in files}


def used(path: Path) -> stenolog.Log:
    """Return a log, still open, whose files beside it are all there."""
    log = stenolog.open(path)
    pair = (UserMessage(text="a word"), AssistantMessage(agent="a", text="another"))
    log["demo"].extend(pair * 70)
    log["demo"].state()
    log["demo"].request("a")
    log.search("word")
    log.close()
    log = stenolog.open(path)
    log["demo"].append(UserMessage(text="one more"))
    return log


@pytest.mark.usefixtures("umask")
def test_a_log_and_all_files_beside_it_are_for_their_owner_alone(path: Path) -> None:
    with used(path) as log:
        lock = LivenessLock(log.datastore.file, "one")
        found = modes(path.parent)
        lock.close()

    assert {name.removeprefix(path.name) for name in found} >= {"", *SIDECARS}
    assert set(found.values()) == {0o600}


@pytest.mark.usefixtures("umask")
def test_a_backup_is_for_its_owner_alone_also_while_it_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, int] = {}
    fill = copies.fill

    def filled(*args: object) -> None:
        fill(*args)  # type: ignore[arg-type]
        seen.update(modes(path.parent))

    monkeypatch.setattr(copies, "fill", filled)
    with stenolog.open(path) as log:
        log["demo"].append(UserMessage(text="a word"))
        path.chmod(0o644)
        log.backup(path.with_name("copy.db"))

    assert seen["copy.db.stenolog-part"] == 0o600
    assert modes(path.parent)["copy.db"] == 0o600


@pytest.mark.usefixtures("umask")
def test_what_a_command_writes_is_for_its_owner_alone(cli: Callable[..., object], tmp_path: Path) -> None:
    cli("demo", "--db", "talks.db")
    commands = (
        ("export", "-o", "all.jsonl"),
        ("export", "demo", "--as", "crewagent", "-o", "crew"),
        ("retry", "demo", "-o", "requests.jsonl"),
        ("outputs", "demo", "--materialise", "files"),
        ("db", "backup", "copy.db"),
    )
    for command in commands:
        cli(*command)

    found = modes(tmp_path)
    made = {name.partition("/")[0] for name in found}
    assert made >= {"talks.db", "all.jsonl", "crew", "requests.jsonl", "files", "copy.db"}
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


def test_an_export_over_a_file_keeps_its_permissions(cli: Callable[..., object], tmp_path: Path) -> None:
    cli("demo", "--db", "talks.db")
    cli("export", "-o", "all.jsonl")
    (tmp_path / "all.jsonl").chmod(0o640)
    cli("export", "-o", "all.jsonl")

    assert modes(tmp_path)["all.jsonl"] == 0o640


def test_the_files_beside_a_log_follow_the_permissions_that_its_owner_gave_it(path: Path) -> None:
    stenolog.open(path).close()
    path.chmod(0o660)
    with used(path):
        assert set(modes(path.parent).values()) == {0o660}

    path.chmod(0o600)
    with used(path):
        assert set(modes(path.parent).values()) == {0o600}


def test_the_log_itself_keeps_the_permissions_that_it_has(path: Path) -> None:
    stenolog.open(path).close()
    path.chmod(0o644)
    with used(path):
        assert modes(path.parent)[path.name] == 0o644


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a socket"])
def test_what_is_no_regular_file_is_refused_as_a_log(kind: str, path: Path) -> None:
    import socket

    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to(os.devnull)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))

    with pytest.raises(NotADatabaseError, match=f"expected a file, found {kind}"):
        stenolog.open(path)


@pytest.mark.parametrize("beside", ["-checkpoints", "-search"])
def test_a_pipe_beside_a_log_stops_nobody(beside: str, path: Path) -> None:
    os.mkfifo(f"{path}{beside}")
    with used(path) as log:
        assert len(log.search("word")) == 20


# Values under keys that an application names are never written to any file of the log.


KEYS = ("password", "API_key")
SECRET = "swordfish"
NESTED = json.dumps({"user": "ann", "login": [{"Password": SECRET}, {"api_key": {"deep": SECRET}}]})


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return stenolog.open(tmp_path / "talks.db", redact=KEYS)


def check_files(log: Log) -> None:
    """Check that no file of the log has the value, while it is open and once it is closed."""
    folder = Path(log.path).parent
    assert files_with(folder, SECRET.encode()) == []
    log.close()
    assert files_with(folder, SECRET.encode()) == []


EVENTS: list[Event] = [
    UserMessage(text="hi", meta={"app": {"password": SECRET}}),
    AssistantMessage(agent="a", tool_calls=[ToolCall(id="c", name="login", arguments=NESTED)]),
    AssistantMessage(agent="a", parts=[ProviderPart(provider="openai", raw=NESTED)]),
    ToolResult(call_id="c", text=NESTED),
    LlmError(agent="a", category="other", parts=[ToolCall(id="c", name="login", arguments=NESTED)]),
    UserMessage(control=Control(action="approve", call=CallRef(entry="e"), arguments=NESTED)),
]


def written(entry: Entry) -> str:
    """Return an event as it is stored, in full: its `repr` is cut."""
    return dump_event(entry.event)[1].decode()


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_the_value_is_in_no_file_and_what_is_returned_is_what_is_stored(log: Log, event: Event) -> None:
    entry = log["demo"].append(event)
    assert SECRET not in written(entry)
    assert REDACTED in written(entry)
    assert log["demo"].entry(entry.position) == entry
    check_files(log)


def test_other_values_stay(log: Log) -> None:
    entry = log["demo"].append(ToolResult(call_id="c", text=NESTED))
    assert isinstance(entry.event, ToolResult)
    assert json.loads(entry.event.text) == {
        "user": "ann",
        "login": [{"Password": REDACTED}, {"api_key": REDACTED}],
    }


def test_free_text_is_not_looked_through(log: Log) -> None:
    entry = log["demo"].append(UserMessage(text='{"password": "said aloud"}'))
    assert "said aloud" in written(entry)


def test_a_repeated_append_is_still_one(log: Log) -> None:
    event = ToolResult(call_id="c", text=NESTED)
    assert log["demo"].append(event, id="x") == log["demo"].append(event, id="x")


def test_the_long_output_of_a_tool_is_redacted_in_its_blob_too(log: Log) -> None:
    long = json.dumps({"password": SECRET, "rows": ["word " * 10] * 1_000})
    result = store_large(log, ToolResult(call_id="c", text=long))
    log["demo"].append(result)
    assert REDACTED.encode() in log.blobs[result.blob]
    check_files(log)


def test_what_the_tool_of_an_engine_gives_back_is_redacted(log: Log) -> None:
    @tool
    def login() -> dict[str, object]:
        """Log in."""
        return {"api_key": SECRET, "rows": ["word " * 10] * 1_000}

    model = Scripted(ToolCall(id="c", name="login"), "Done.")
    Team([Agent("a", llm=model, tools=[login])]).ask_sync(log["demo"], "go")
    assert [item.status for item in log["demo"].timeline() if item.kind == "tool"] == ["ok"]
    check_files(log)


@pytest.mark.parametrize("redact", ["password", [""], [1]])
def test_what_is_no_list_of_keys_is_refused(tmp_path: Path, redact: object) -> None:
    with pytest.raises(InvalidEventError, match="expected a list of keys"):
        stenolog.open(tmp_path / "talks.db", redact=redact)  # type: ignore[arg-type]


@pytest.mark.parametrize("event", examples().values(), ids=examples())
def test_an_event_without_such_keys_stays_the_same(event: Event) -> None:
    assert redacted(event, frozenset(("no such key",))) is event


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["password", "a", "b"]), inner),
)


@given(JSON)
def test_redacting_twice_is_redacting_once_and_no_value_is_left(value: object) -> None:
    def under(value: object) -> Iterator[object]:
        if isinstance(value, dict):
            yield from (inner for key, inner in value.items() if key == "password")
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from under(inner)

    once = without(value, {"password"})
    assert without(once, {"password"}) == once
    assert set(map(repr, under(once))) <= {repr(REDACTED), "None"}
