"""Signatures by which a file is recognised, and files that no importer reads, refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from stenolog.errors import UnknownFormatError
from stenolog.importers import IMPORTERS, Importer, JsonLinesReader, files_in, recognise
from stenolog.plugins import Signature, shows
from tests.requests.judging import SHARED
from tests.transcripts.given import Json, lines

ROOT = Path(__file__).parents[2]
HERE = [
    *sorted((ROOT / "docs/examples").rglob("*.json*")),
    *sorted((Path(__file__).parent / "sessions").iterdir()),
]
RECORDED = sorted(path for path in (SHARED / "transcripts").rglob("*") if path.is_file())
LOADED = """
import sys, stenolog
from stenolog.importers import import_file
import_file(stenolog.open(":memory:"), sys.argv[1])
print(*sorted(name for name in sys.modules if ".contrib." in name or ".programs." in name))
"""


@pytest.mark.parametrize(
    ("file", "room"),
    [
        ("docs/examples/session.jsonl", "stenolog.adapters.programs.claude_code"),
        ("tests/transcripts/sessions/qwen-code.jsonl", "stenolog.adapters.programs.qwen_code"),
        ("tests/transcripts/sessions/adk.json", "stenolog.contrib.adk"),
    ],
)
def test_an_import_of_one_file_imports_one_importer(file: str, room: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, ROOT / file], capture_output=True, text=True, check=True
    )
    rooms = ("claude_code", "codex", "gemini_cli", "qwen_code")
    values = {f"stenolog.adapters.programs.{each}" for each in rooms} | {
        "stenolog.contrib.plugins",
        "stenolog.contrib.programs",
        "stenolog.contrib.agents",
    }

    others = {
        name for name in {*ran.stdout.split()} - values if name != room and not name.startswith(f"{room}.")
    }

    assert others <= {"stenolog.adapters.programs.gemini_cli.gemini_session"}  # Qwen Code's base


def _values(path: Path) -> tuple[list[object], list[object]]:
    """Return the first records of a file, and the document that it is."""
    with path.open("rb") as stream:
        records = [value for _, value in islice(JsonLinesReader().values(stream), 200)]
        stream.seek(0)
        try:
            return records, [JsonLinesReader().document(stream)]
        except UnknownFormatError:
            return records, []


def _unseen(name: str, importer: Importer, path: Path) -> str:
    """Return the name of an importer that takes a value of a file whose signatures do not fit."""
    signatures = IMPORTERS.signatures(name) or ()
    records, documents = _values(path)
    for values, takes, whole in (
        (records, importer.is_record, False),
        (documents, importer.is_document, True),
    ):
        for value in values:
            if takes is not importer.is_record or isinstance(value, dict):
                taken = takes(value)
                if taken and not any(each.fits(value, whole=whole) for each in signatures):
                    return name
    return ""


@pytest.mark.parametrize("path", [*HERE, *RECORDED], ids=lambda path: f"{path.parent.name}/{path.name[-40:]}")
def test_whatever_an_importer_takes_shows_one_of_its_signatures(path: Path) -> None:
    if path.suffix in (".md", ".db", ".sqlite", ".zst", ".gz"):
        return
    try:
        unseen = [
            name for name in IMPORTERS if IMPORTERS.signatures(name) and _unseen(name, IMPORTERS[name], path)
        ]
    except UnknownFormatError:
        return

    assert unseen == []


@pytest.mark.parametrize(
    ("signature", "value", "fits"),
    [
        (shows("id", type="session"), {"id": 1, "type": " Session"}, True),
        (shows("id", type="session"), {"id": 1, "type": "user"}, False),
        (shows("message.parts"), {"message": {"parts": []}}, True),
        (shows("message.parts"), {"message": "parts"}, False),
        (shows("role", inside=("messages",)), {"messages": [{"role": "user"}]}, True),
        (shows("role"), {"messages": [{"role": "user"}]}, False),
        (shows("role"), ["EVENT", [{"role": "user"}]], True),
        (shows("role", whole=True), {"role": "user"}, False),
        (Signature(texts=True), ["a"], True),
        (Signature(tables={"": frozenset("a")}), {"a": 1}, False),
    ],
)
def test_a_value_shows_keys_and_texts_where_a_signature_looks(
    signature: Signature, value: object, fits: bool
) -> None:
    assert signature.fits(value) is fits


def test_a_database_shows_tables_by_name_or_any_with_its_columns() -> None:
    tables = {"s": frozenset("ab"), "t": frozenset("c")}

    assert Signature(tables={"s": frozenset("a")}).fits_tables(tables)
    assert Signature(tables={"": frozenset("c")}).fits_tables(tables)
    assert not Signature(tables={"t": frozenset("a")}).fits_tables(tables)


USER: Json = {"type": "user", "uuid": "1", "parentUuid": None, "sessionId": "s"}


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("a Cursor CLI stream", [{"type": "tool_call", "session_id": "s", "tool_call": {}}]),
        ("an Antigravity session", [{"step_index": 0, "source": "MODEL", "type": "USER_INPUT"}]),
        ("a Grok CLI session", [{"type": "user", "content": "hi"}, {"type": "x", "model_fingerprint": "f"}]),
        (
            "the context of a Kimi CLI session, beside its `wire.jsonl`",
            [{"role": "_system_prompt", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        ),
        ("a Droid stream", [{"type": "completion", "finalText": "Done"}]),
        ("a Claude Code session without a message", [USER]),
        ("a compaction of a Cline session", [{"version": 1, "source_message_count": 2, "messages": []}]),
        ("a recording of API calls", [{"1b" * 32: {}, "c8" * 32: {}}]),
        ("a SWE-agent demonstration without a message", [{"history": []}]),
        ("a file of SWE-bench predictions", [{"a__b-1": {"instance_id": "a__b-1", "model_patch": ""}}]),
        ("a file of Multi-SWE-bench predictions", [{"org": "a", "repo": "b", "number": 1, "fix_patch": ""}]),
        ("an OpenHands run without events", [{"instance_id": "a__b-1", "history": None}]),
        ("the results of an ADK evaluation", [{"eval_set_result_id": "r", "eval_case_results": []}]),
        ("the input of an ADK replay", [{"state": {}, "queries": ["Hi"]}]),
    ],
)
def test_a_format_without_an_importer_is_refused_by_its_name(name: str, records: list[Json]) -> None:
    with pytest.raises(UnknownFormatError, match=f"found {name}, which has no importer"):
        recognise(lines(*records))


@pytest.mark.parametrize("record", [{"id": "1", "events": []}, {"history": [], "model": "x"}, {"agent": "x"}])
def test_an_object_of_no_known_format_is_refused_by_its_keys(record: Json) -> None:
    with pytest.raises(UnknownFormatError, match="found an object with the keys"):
        recognise(json.dumps(record).encode())


HI: Json = {"role": "user", "content": "Hi"}
PARTS: Json = {"role": "user", "parts": [{"text": "Hi"}]}


@pytest.mark.parametrize(
    ("format", "other"),
    [
        ("openai-chat", [HI, {"role": "assistant", "content": "Ho"}]),
        ("openai-chat", [{"id": "1", **HI}]),
        ("openai-chat", {"id": "c", "messages": [{**HI, "content": [{"type": "text", "text": "Hi"}]}]}),
        ("", [PARTS]),
        ("", {"contents": [PARTS]}),
        ("", [{"role": "user", "parts": []}]),
        ("", [{"kind": "request", "parts": []}]),
        ("", [{"kind": "MessageEvent", "source": "user", "parts": [{"part_kind": "text"}]}]),
        ("", [{"query": "How warm?", "reference": "21", "score": 1}]),
    ],
)
def test_messages_of_a_provider_are_not_taken_for_those_of_a_library(format: str, other: object) -> None:
    try:
        found = recognise(json.dumps(other).encode())
    except UnknownFormatError:
        found = ""

    assert found == format


def test_lists_on_lines_and_archives_are_refused_as_what_they_are() -> None:
    with pytest.raises(UnknownFormatError, match="found a list on each line"):
        recognise(b'["a", 1]\n["b", 2]\n')
    with pytest.raises(UnknownFormatError, match="found a ZIP archive"):
        recognise(b"PK\x03\x04rest")


def test_recordings_of_servers_and_of_calls_are_refused_by_their_names() -> None:
    with pytest.raises(UnknownFormatError, match="found a recording of an MCP server, which has no importer"):
        recognise(b'STDIN: {"jsonrpc":"2.0"}\nSTDOUT: {}\n')
    with pytest.raises(UnknownFormatError, match="found a LangSmith recording of API calls, which has no"):
        recognise(b'["client.beta.sessions.create",{}]\n["client.beta.x",["s",{}]]\n')
    early = lines({"role": "user", "content": "Hi"}, {"type": "tool_call", "function": {}, "arguments": "x"})
    with pytest.raises(
        UnknownFormatError, match="on line 2 a call in a log of the first Codex CLI, which has"
    ):
        recognise(early)


def test_a_note_on_a_sub_agent_in_a_folder_is_passed_over(tmp_path: Path) -> None:
    note = tmp_path / "agent-a1.meta.json"
    note.write_text('{"agentType": "Explore", "spawnDepth": 1}')
    passed: list[Path] = []

    assert list(files_in(tmp_path, passed_over=passed.append)) == []
    assert passed == [note]


def test_files_that_a_program_keeps_beside_its_sessions_are_passed_over(tmp_path: Path) -> None:
    beside = [tmp_path / name for name in ("s.settings.json", "ui_messages.json", "s.compaction.json")]
    for each in (*beside, talk := tmp_path / "s.jsonl"):
        each.write_text('{"model": "x"}')
    passed: list[Path] = []

    assert list(files_in(tmp_path, passed_over=passed.append)) == [talk]
    assert {*passed} == {*beside}
