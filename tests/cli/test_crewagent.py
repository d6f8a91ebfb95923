"""A folder of CrewAgent's conversations, in and out on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
