"""Files that no importer reads are refused by the name of their format, where it is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stenolog.errors import UnknownFormatError
from stenolog.importers import files_in, recognise
from tests.transcripts.given import Json, lines

USER: Json = {"type": "user", "uuid": "1", "parentUuid": None, "sessionId": "s"}


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("a Cursor transcript", [{"role": "user", "message": {"content": []}}]),
        ("an Antigravity session", [{"step_index": 0, "source": "MODEL", "type": "USER_INPUT"}]),
        ("a Grok CLI session", [{"type": "user", "content": "hi"}, {"type": "x", "model_fingerprint": "f"}]),
        ("a Kimi CLI session", [{"type": "metadata", "protocol_version": "1.4"}]),
        ("a Droid session", [{"type": "session_start", "id": "d", "title": "t"}]),
        ("a Claude Code session without a message", [USER]),
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
