"""`--json` prints one envelope, everywhere; errors have exit codes, in one place."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stenolog.adapters.conversation.log import open as open_log
from stenolog.adapters.conversation.queries.plain_json import plain
from stenolog.apps.cli import framework
from stenolog.apps.cli.app import EXITS, MODULES, Commands, command_in, exit_of
from stenolog.apps.cli.commands.set_up.db.schema import envelope_schema
from stenolog.domain import errors
from stenolog.domain.events import Unknown, UserMessage

SESSION = str(Path(__file__).parents[2] / "docs" / "examples" / "session.jsonl")
COMMANDS = [
    ("ls",),
    ("ls", "em", "--all", "--since", "2026-11-20"),
    ("log", "demo"),
    ("log", "demo", "-n", "2", "--kind", "error"),
    ("show", "demo", "5"),
    ("search", "test", "dates"),
    ("search", '"continue"', "--conversation", "demo", "--kind", "user", "--newest"),
    ("timeline", "demo"),
    ("request", "demo", "--agent", "coder"),
    ("request", "demo", "--agent", "reviewer", "--api", "anthropic", "--at", "@~3"),
    ("state", "--steps", "demo"),
    ("state", "demo"),
    ("outputs", "demo"),
    ("outputs", "demo", "--materialise", "workspace"),
    ("outputs", "demo", "@state/logs/tool-results/demo-4.json"),
    ("explain", "demo", "5"),
    ("explain", "demo", "5", "--policy", "last:3", "--api", "gemini"),
    ("explain", "demo", "11"),
    ("explain", "entry", "demo", "3/1"),
    ("request", "--why", "demo", "--agent", "coder"),
    ("request", "demo", "--agent", "coder", "--policy", "last:3", "--dropped"),
    ("request", "demo", "--diff", "8", "--at", "12", "--agent", "coder"),
    ("request", "demo", "--at", "12", "--agent", "reviewer", "--other", "coder", "--api", "anthropic"),
    ("explain", "agent", "demo", "coder", "--minus", "reviewer"),
    ("cost", "demo"),
    ("cost", "demo", "--context"),
    ("cost", "demo", "--context", "--agent", "coder", "--at", "9"),
    ("cost", "demo", "--advise"),
    ("retry", "demo"),
    ("compare", "demo", "demo"),
    ("certify", "demo", "--agent", "reviewer", "--never", "swordfish"),
    ("check",),
    ("check", "demo"),
    ("check", "replay", "demo"),
    ("check", "log", "demo"),
    ("check", "log", "demo", "--requests"),
    ("check", "requests", "demo", "--all-prefixes"),
    ("retry", "demo", "--policy", "last:3", "-o", "requests.jsonl"),
    ("cost", "--plan", "demo", "--agent", "coder", "--budget", "200,16k", "--policy", "full,last:2"),
    ("request", "demo", "--agent", "coder", "--without", "3-4"),
    ("explain", "text", "demo", "pytest", "--agent", "coder"),
    ("bisect", "--releases", "claude"),
    ("bisect", "demo", "--agent", "coder", "--holds", "run them"),
    ("cost", "--cache", "--verbose", "demo"),
    ("export", "demo", "-o", "out.jsonl"),
    ("import", SESSION),
    ("append", "demo", "--user", "And now?"),
    ("submit", "--conversation", "demo", "And now?"),
    ("workers",),
    ("db", "path"),
    ("db", "backup", "copy.db"),
    ("db", "gc"),
    ("explain", "text", "test"),
    ("explain", "answer", "demo", "7"),
    ("explain", "compaction", "demo", "--agent", "coder"),
    ("db", "salvage", "talks.db", "-o", "salvaged.db"),
    ("fork", "demo", "--after", "4"),
    ("rename", "demo", "other"),
    ("archive", "demo"),
    ("delete", "demo", "--yes"),
    ("erase", "demo", "2", "--yes"),
    ("erase", "--subject", "test", "--yes"),
    ("hold", "demo", "--younger-than", "180d", "--reason", "duty"),
    ("db", "schema"),
    ("db", "schema", "envelope"),
    ("db", "schema", "user_message@1"),
    ("completion", "bash"),
    ("demo",),
]
FIELDS: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parents[2] / "docs" / "reference" / "data.toml").read_text("utf-8")
)
ERRORS = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)]


def check(value: Any, schema: dict[str, Any]) -> None:
    """Check a value against the few features of JSON Schema that the envelope needs."""
    if "const" in schema:
        assert value == schema["const"]
    if "enum" in schema:
        assert value in schema["enum"]
    kinds = {"object": dict, "array": list, "string": str, "integer": int}
    if "type" in schema:
        assert isinstance(value, kinds[schema["type"]])
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema["required"]) <= set(value) <= set(schema["properties"])
        for name, inner in value.items():
            check(inner, schema["properties"][name])
    if isinstance(value, list) and "items" in schema:
        for inner in value:
            check(inner, schema["items"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_answers_in_the_envelope(demo: Callable[..., Any], command: tuple[str, ...]) -> None:
    ran = demo(*command, "--json")

    check(ran.envelope, envelope_schema())
    assert (ran.status, ran.envelope["status"], ran.err) == (0, "ok", "")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_answers_a_person_too(demo: Callable[..., Any], command: tuple[str, ...]) -> None:
    ran = demo(*command)

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.strip()
    assert "\x1b" not in ran.out
    assert [line for line in ran.out.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("command", [row for row in COMMANDS if "schema" not in row], ids=" ".join)
def test_the_data_of_a_command_is_what_the_reference_says(
    demo: Callable[..., Any], command: tuple[str, ...]
) -> None:
    data = demo(*command, "--json").data

    names = {"@state/logs/tool-results/demo-4.json": "ALIAS", "test": "TEXT"}
    words = {names.get(word, word) for word in command}
    rows = [name for name in FIELDS if words.issuperset(name.split()) and name.startswith(command[0])]
    row = max(rows, key=lambda name: len(name.split()))  # of those with as many words, the first
    assert list(data[0] if isinstance(data, list) else data) == FIELDS[row]


def test_commands_that_are_not_tried_here_need_a_model_a_fault_a_backup_or_a_second_process() -> None:
    tried = {command[0] for command in COMMANDS}
    within = {command[:2] for command in COMMANDS}
    groups = {
        (name, each)
        for name, module in MODULES.items()
        if isinstance(group := command_in(module, name), Commands)
        for each in group.modules
    }

    untried = {"tail", "chat", "run", "claims", "move", "serve", "inspect", "watch", "worker", "tap"}
    assert set(MODULES) - tried == untried
    assert groups - within == {("check", "all"), ("check", "file"), ("db", "restore")}


@pytest.mark.parametrize(
    ("command", "status", "code"),
    [
        (("log", "nobody"), 3, "ConversationNotFoundError"),
        (("log", "demo", "--db", "nowhere.db"), 3, "FileNotFoundError"),
        (("show", "demo", "99"), 3, "PositionNotFoundError"),
        (("request", "demo", "--agent", "codr"), 2, "AgentNotFoundError"),
        (("request", "demo"), 2, "InvalidEventError"),
        (("explain", "demo", "99"), 3, "PositionNotFoundError"),
        (("explain", "demo", "3/2"), 3, "PositionNotFoundError"),
        (("explain", "demo", "3/last"), 2, "InvalidEventError"),
        (("request", "--why", "demo", "--agent", "coder", "--message", "99"), 2, "InvalidEventError"),
        (("request", "--why", "demo", "--agent", "coder", "--policy", "lots"), 2, "InvalidPolicyError"),
        (("request", "demo", "--agent", "coder", "--diff", "99"), 3, "PositionNotFoundError"),
        (("explain", "agent", "demo", "coder", "--minus", "nobody"), 2, "AgentNotFoundError"),
        (("log", "demo", "--at", "sometime"), 2, "InvalidEventError"),
        (("outputs", "demo", "../secret"), 2, "CallerError"),
        (("outputs", "demo", "@state/logs/tool-results/none.json"), 3, "PositionNotFoundError"),
        (("log", "demo", "--nonsense"), 2, "NoSuchOption"),
        (("fork", "demo"), 2, "UsageError"),
        (("fork", "demo", "--after", "4", "--name", "demo"), 2, "ConversationExistsError"),
        (("delete", "demo"), 2, "UsageError"),
        (("log", "demo", "--db", "note.txt"), 4, "NotADatabaseError"),
        (("ls", "--db", "."), 3, "FileNotFoundError"),
        (("import", "note.txt", "--db", "."), 3, "FileNotFoundError"),
    ],
)
def test_a_failure_is_an_envelope_and_an_exit_code(
    demo: Callable[..., Any], tmp_path: Any, command: tuple[str, ...], status: int, code: str
) -> None:
    (tmp_path / "note.txt").write_text("This is no database. " * 100)

    ran = demo(*command, "--json")

    check(ran.envelope, envelope_schema())
    assert (ran.status, ran.envelope["status"], ran.data) == (status, "error", None)
    assert ran.envelope["diagnostics"][0]["code"] == code
    told = demo(*command)
    assert (told.status, told.out) == (status, "")
    assert told.err.strip()


@pytest.mark.parametrize("cls", ERRORS)
def test_every_error_of_ours_has_an_exit_code(cls: type[Exception]) -> None:
    error = cls("a", expected=1, found=2) if cls is errors.VersionConflictError else cls.__new__(cls)
    data = dict.fromkeys(
        (
            "StoredDataError",
            "CorruptLogError",
            "BlobNotFoundError",
            "NotADatabaseError",
            "UnsupportedVersionError",
        ),
        4,
    )
    world = dict.fromkeys(
        ("ProviderError", "ModelError", "ToolError", "OperationalError", "StoreTimeoutError", "StoreError"), 6
    )
    missing = dict.fromkeys(("ConversationNotFoundError", "PositionNotFoundError"), 3)
    expected = {**data, **world, **missing, "VersionConflictError": 5, "StenologError": 70}

    assert exit_of(error).code == expected.get(cls.__name__, 2)


def test_the_codes_are_those_that_are_documented() -> None:
    assert [exit.code for exit in EXITS] == [0, 1, 2, 3, 4, 5, 6, 70, 130, 143]


def test_an_interruption_is_130(demo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(framework, "show", interrupt)

    assert demo("ls").status == 130


def test_a_defect_is_one_line_and_how_to_report_it(
    demo: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framework, "show", lambda *_: 1 // 0)

    ran = demo("ls")

    assert (ran.status, ran.out) == (70, "")
    assert "ZeroDivisionError" in ran.err
    assert "--traceback" in ran.err
    assert "Traceback" not in ran.err
    assert "Traceback (most recent call last)" in demo("ls", "--traceback").err


def test_an_entry_of_a_later_release_is_shown_as_it_is_stored(cli: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        log["talk"].append(Unknown(topic="dream@7", payload=b'{"of":"sheep"}'), id="d")
        log["talk"].append(UserMessage(text="hm"))

    entry = cli("show", "talk", "2", "--json").data

    assert (entry["kind"], entry["topic"], entry["event"]) == ("unknown", "dream@7", '{"of":"sheep"}')


def test_plain_turns_every_value_into_json(demo: Callable[..., Any]) -> None:
    with open_log("talks.db") as log:
        conversation = log["demo"]
        values = [
            conversation.state(),
            conversation.settings(),
            conversation.timeline(),
            list(conversation.transitions()),
            list(conversation.entries()),
        ]

    assert json.loads(json.dumps(plain(values))) == plain(values)
