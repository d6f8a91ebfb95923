"""Files in, files out, and what the doctor says of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stenolog.requests import validate
from tests.transcripts.given import assistant, lines, tool_use, user

ROOT = Path(__file__).parents[2]
SESSION = str(ROOT / "docs" / "examples" / "session.jsonl")
SHARED = ROOT.parent / "shared" / "transcripts"
CALL = {"id": "c1", "type": "function", "function": {"name": "sh", "arguments": "{}"}}
ORPHAN = [
    {"role": "user", "content": "Which test fails?"},
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "user", "content": "Hello?"},
    {"role": "tool", "tool_call_id": "c9", "content": "1 failed"},
]


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """Return a history with a call that has no result, and a result that has no call."""
    (tmp_path / "damaged.json").write_text(json.dumps(ORPHAN))
    return "damaged.json"


def test_a_transcript_comes_in_and_is_named(cli: Callable[..., Any]) -> None:
    ran = cli("import", SESSION, "--name", "bakery")

    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "✓ bakery  15 entries  claude-code\n"
    assert cli("log", "bakery", "-n", "1", "--json").data["entries"][0]["position"] == 15


def test_importing_again_appends_nothing(cli: Callable[..., Any]) -> None:
    cli("import", SESSION)
    before = cli("log", "--json").out

    again = cli("import", SESSION)

    assert "0 new entries (15 already there)" in again.out
    assert cli("log", "--json").out == before


def test_a_transcript_on_stdin_is_the_session_that_its_file_is(
    cli: Callable[..., Any], piped: Callable[..., Any]
) -> None:
    session = Path(SESSION).read_bytes()

    first = piped(session, "import", "-")

    assert first.out == "✓ 5e55a0de-0001-4000-8000-000000000001  15 entries  claude-code\n"
    assert "0 new entries (15 already there)" in piped(session, "import", "-").out
    assert "0 new entries (15 already there)" in cli("import", SESSION).out


@pytest.mark.parametrize("given", [(), ("--name", "x")])
def test_a_transcript_on_stdin_that_tells_no_id_is_known_by_its_words(
    cli: Callable[..., Any], piped: Callable[..., Any], given: tuple[str, ...]
) -> None:
    name = given[-1] if given else "stdin-"

    assert piped(json.dumps(ORPHAN), "import", "-", *given).out.startswith(f"✓ {name}")
    cli("rename", cli("ls", "--json").data[0]["name"], "bread") if not given else None
    again = piped(json.dumps(ORPHAN), "import", "-", *given)

    assert "0 new entries (6 already there)" in again.out
    assert len(cli("ls", "--json").data) == 1


def test_a_transcript_on_stdin_that_has_grown_goes_on_under_its_name(piped: Callable[..., Any]) -> None:
    piped(json.dumps(ORPHAN[:1]), "import", "-", "--name", "x")

    assert "4 new entries (2 already there)" in piped(json.dumps(ORPHAN), "import", "-", "--name", "x").out


def test_an_export_comes_in_by_stdin_and_what_is_no_transcript_is_refused(
    demo: Callable[..., Any], piped: Callable[..., Any]
) -> None:
    exported = demo("export", "demo").out

    assert piped(exported, "import", "-", "--db", "other.db").out == "✓ demo  12 entries  stenolog\n"
    assert (piped("", "import", "-").status, piped("Buy bread.", "import", "-").status) == (2, 2)
    assert "- is stdin" in piped(exported, "import", "-", SESSION).err


@pytest.mark.parametrize("command", ["import", "check file"])
def test_a_file_that_is_not_there_is_not_found_whatever_else_was_named(
    cli: Callable[..., Any], tmp_path: Path, command: str
) -> None:
    for files in (["nowhere.json"], [SESSION, "nowhere.json"]):
        ran = cli(*command.split(), *files)

        assert (ran.status, ran.err) == (3, "✗ nowhere.json: no such file or directory\n")
    assert list(tmp_path.iterdir()) == []


def test_an_export_imports_back_to_the_same_digests(cli: Callable[..., Any]) -> None:
    cli("import", SESSION, "--name", "bakery")

    assert cli("export", "bakery", "-o", "out.jsonl").status == 0
    assert cli("import", "out.jsonl", "--db", "other.db").status == 0
    assert cli("log", "bakery", "--db", "other.db", "--json").out == cli("log", "bakery", "--json").out


def test_an_export_goes_to_stdout_as_it_goes_into_a_file(cli: Callable[..., Any], tmp_path: Path) -> None:
    cli("import", SESSION, "--name", "bakery")
    cli("export", "bakery", "-o", "out.jsonl")

    assert cli("export", "bakery").out == (tmp_path / "out.jsonl").read_text()
    assert cli("export", "bakery", "--json").status == 2


def test_an_export_as_openai_messages_is_a_list_of_them(cli: Callable[..., Any]) -> None:
    cli("import", SESSION, "--name", "bakery")

    messages = json.loads(cli("export", "bakery", "--as", "openai").out)

    assert messages[0] == {
        "role": "user",
        "content": "How many loaves does oven.py bake at most? Check it, don't guess.",
    }
    assert {message["role"] for message in messages} == {"user", "assistant", "tool"}


def test_an_export_that_fails_leaves_no_file(cli: Callable[..., Any], tmp_path: Path) -> None:
    cli("import", SESSION, "--name", "bakery")

    assert cli("export", "bakery", "--as", "openai", "--agent", "nobody", "-o", "out.json").status == 2
    assert not list(tmp_path.glob("out*"))


def test_an_agent_is_named_where_it_matters(cli: Callable[..., Any]) -> None:
    cli("import", SESSION, "--name", "bakery")

    assert "expected Nostr events" in cli("import", SESSION, "--key", f"{'ab' * 32}=coder").err
    for form in ("jsonl", "crewagent"):
        ran = cli("export", "bakery", "--as", form, "-o", "out", "--agent", "claude")
        assert (ran.status, "--agent is for --as openai" in ran.err) == (2, True)


def test_what_is_skipped_is_named_by_its_place_in_a_list(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps([{"role": "agent", "content": "Hi"}, 7]))

    assert cli("import", "chat.json").err == "! chat.json: message 2: expected an object, found int\n"


def test_check_file_finds_nothing_wrong_with_a_sound_history(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "sound.json").write_text(json.dumps(ORPHAN[:1]))

    ran = cli("check", "file", "sound.json")

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "✓ nothing is wrong"


@pytest.mark.parametrize("api", ["openai-chat", "anthropic", "plain"])
def test_check_file_names_what_is_wrong_and_gives_a_request_that_is_right(
    cli: Callable[..., Any], damaged: str, api: str
) -> None:
    told = cli("check", "file", damaged, "--api", api, "--fail-on", "warning", "--json")
    raw = cli("check", "file", damaged, "--api", api, "--raw").out

    codes = {note["code"] for note in told.envelope["diagnostics"]}
    assert told.status == 1
    assert codes >= {"anomaly", "orphan-result"}
    assert list(validate(api, json.loads(raw))) == []
    assert hashlib.sha256(raw.encode()).hexdigest() == told.data[0]["request"]["sha256"]
    assert list(validate("openai-chat", {"messages": ORPHAN})) != []


def test_a_call_that_a_person_went_on_after_is_closed_by_check_file(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    (tmp_path / "left.json").write_text(json.dumps(asked))
    (tmp_path / "over.json").write_text(json.dumps([*asked, {"role": "user", "content": "And?"}]))
    running, over = (cli("check", "file", name) for name in ("left.json", "over.json"))
    body = json.loads(cli("check", "file", "over.json", "--raw").out)

    assert "nothing to send" in running.out
    assert (over.status, over.out.splitlines()[1:]) == (0, ["✓ 1 warning"])
    assert "! 'over' at 3: mended: look has no result, and a person went on\n" in over.err
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "user"]
    assert body["messages"][2]["content"] == "No result: the call was interrupted."


def test_check_file_keeps_nothing(cli: Callable[..., Any], damaged: str, tmp_path: Path) -> None:
    cli("check", "file", damaged)

    assert [path.name for path in tmp_path.iterdir()] == [damaged]


def test_of_many_files_check_file_draws_up_a_list(
    cli: Callable[..., Any], damaged: str, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text("Buy bread.")

    ran = cli("check", "file", SESSION, damaged, "note.txt")

    assert (ran.status, ran.out.splitlines()[-1][:9]) == (1, "✗ 1 error")
    (tmp_path / "sound.json").write_text(json.dumps(ORPHAN[:1]))
    assert "sound.json" not in cli("check", "file", "sound.json", damaged).out
    ran = cli("check", "file", "-v", "sound.json", damaged, "note.txt")
    assert [line.split()[0] for line in ran.out.splitlines()[:3]] == ["imported", "imported", "refused"]
    assert "    1  none of ours    refused\n" in ran.out


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ((), 1),
        (("--ignore", "skipped"), 0),
        (("--ignore", "skipped", "--fail-on", "warning"), 1),
    ],
)
def test_a_check_of_files_fails_from_the_severity_that_is_asked_for_on(
    cli: Callable[..., Any], damaged: str, tmp_path: Path, options: tuple[str, ...], status: int
) -> None:
    (tmp_path / "cut.jsonl").write_text('{"role": "user", "content": "a"}\n{"ro\n' * 2)

    for command in (("check",), ("check", "file")):
        assert cli(*command, damaged, "cut.jsonl", *options).status == status


@pytest.mark.skipif(not SHARED.exists(), reason="the recorded transcripts are not beside the checkout")
def test_check_file_sees_every_recorded_transcript_without_a_defect(cli: Callable[..., Any]) -> None:
    files = [str(path) for path in sorted(SHARED.rglob("*")) if path.is_file() and path.suffix != ".md"]

    ran = cli("check", "file", *files, "--json")

    outcomes = {found["outcome"] for found in ran.data}
    assert (ran.status, len(ran.data)) == (1, len(files))
    assert outcomes == {"imported", "no conversation", "refused"}


def test_a_finding_is_at_the_line_of_its_record_not_at_one_that_mentions_it(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    call = assistant("u-1", None, {"type": "text", "text": 'x"' * 99}, tool_use("c-1"))
    summary = {"type": "summary", "summary": "s", "leafUuid": "u-1"}
    (tmp_path / "a.jsonl").write_bytes(lines(summary, call, user("u-2", "u-1", "Go on.")))
    found = cli("check", "file", "a.jsonl", "--format", "github").out

    assert found.startswith("::warning file=a.jsonl,line=2,title=call-without-result::")


def test_a_finding_of_retry_is_at_the_path_of_its_database(demo: Callable[..., Any], tmp_path: Path) -> None:
    demo("retry", "demo", "-o", "old.jsonl")
    (tmp_path / "logs").mkdir()
    (tmp_path / "talks.db").rename(tmp_path / "logs" / "talks.db")
    older = (tmp_path / "old.jsonl").read_text().splitlines()[0]
    (tmp_path / "old.jsonl").write_text(f"{older}\n")
    told = demo("retry", "--db", "logs/talks.db", "demo", "--against", "old.jsonl", "--format", "sarif")

    assert '"uri":"logs/talks.db"' in told.out
    assert '"uri":"talks.db"' not in told.out


# A folder of CrewAgent's conversations, in and out on the command line.


EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "crewagent"
CONVERSATIONS = EXAMPLE / "conversations"


def messages(folder: Path, id: str) -> Any:
    return json.loads((folder / id / "messages.json").read_text())


@pytest.mark.parametrize(
    "given", [EXAMPLE, CONVERSATIONS, CONVERSATIONS / "index.json"], ids=lambda p: p.name
)
def test_a_folder_comes_in_with_all_its_conversations(cli: Callable[..., Any], given: Path) -> None:
    ran = cli("import", str(given))

    assert (ran.status, ran.err) == (0, "")
    assert ran.out == "✓ parser  15 entries  crewagent\n✓ notes  6 entries  crewagent\n"
    assert cli("check", "log").status == 0
    assert cli("check", "requests", "parser", "--all-prefixes").status == 0


def test_what_comes_in_goes_out_as_it_was(cli: Callable[..., Any], tmp_path: Path) -> None:
    cli("import", str(EXAMPLE))

    for name in ("parser", "notes"):
        ran = cli("export", name, "--as", "crewagent", "-o", "out")
        assert (ran.status, ran.err) == (0, "")

    assert [messages(tmp_path / "out", id) == messages(CONVERSATIONS, id) for id in ("parser", "notes")] == [
        True,
        True,
    ]
    index = (json.loads((each / "index.json").read_text()) for each in (tmp_path / "out", CONVERSATIONS))
    assert next(index)["conversations"] == next(index)["conversations"]


def test_broken_conversations_are_told_by_name_and_fail_the_command(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    for id, text in {"a": '["words"]', "b": "[", "c": '[{"role": "user", "content": "Hi"}]'}.items():
        (tmp_path / "talks" / id).mkdir(parents=True)
        (tmp_path / "talks" / id / "messages.json").write_text(text)

    ran = cli("import", "talks")

    assert ran.status == 1
    assert "✓ c  2 entries" in ran.out
    assert "talks: b: b/messages.json: expected one JSON document; line 1, column 2" in ran.err
    assert "talks: a: message 1: cannot be taken down: expected an object, found str" in ran.err


def test_an_export_for_the_old_app_wants_a_folder(cli: Callable[..., Any]) -> None:
    cli("import", str(EXAMPLE))

    for output in ((), ("-o", "-")):
        ran = cli("export", "notes", "--as", "crewagent", *output)
        assert (ran.status, "into which folder: -o FOLDER" in ran.err) == (2, True)


def test_a_file_is_never_written_into_the_place_of_a_folder(cli: Callable[..., Any], tmp_path: Path) -> None:
    cli("import", str(EXAMPLE))
    (tmp_path / "out").mkdir()

    ran = cli("export", "notes", "-o", "out")

    assert (ran.status, "'out' is a directory" in ran.err) == (2, True)


def test_a_preview_whose_file_is_not_there_is_told_at_once(cli: Callable[..., Any], tmp_path: Path) -> None:
    preview = "line 1 …\nFull output: @state/logs/tool-results/c1.json"
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    talk = [
        {"role": "assistant", "content": None, "tool_calls": [call], "mode": "agent"},
        {"role": "tool", "tool_call_id": "c1", "content": preview, "toolName": "read"},
    ]
    (tmp_path / "old" / "talk").mkdir(parents=True)
    (tmp_path / "old" / "talk" / "messages.json").write_text(json.dumps(talk))
    ran = cli("import", "old")

    assert "missing: files of whole outputs (link @state beside the folder" in ran.err
    assert cli("outputs", "talk").status == 0
