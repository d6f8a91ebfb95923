"""Every recorded transcript is imported, or refused by the name of its format: nothing is "unknown"."""

from __future__ import annotations

from pathlib import Path

import pytest

import stenolog
from stenolog.errors import UnknownFormatError
from stenolog.importers import Report, import_file
from tests.requests.judging import SHARED

FOLDER = SHARED / "transcripts"
HERE = FOLDER.is_dir()
ABOUT = ("SOURCES.md", "FORMATS.md", "README.md")
EMPTY = "context-compress-interactive.compress-empty.responses"
REASONS = (
    "which has no importer",
    "found an empty file",
    "which is imported with the folder `storage` that it is from",
)
"""The ends of a refusal that says by name what the file is."""
REFUSED = ("api_wire", "gemini_cli", "goose_wire", "langsmith", "mcp_replay")
"""The folders of recordings of API calls and of servers, in which there is no conversation to continue."""
IMPORTED = ("burr", "claude_code", "claude_code_fixtures", "codex", "tau_bench")
"""The folders all of whose files are conversations."""

SILENT = ["claude_code/ec-38b74f08e3-2.jsonl"]
"""The chats of Gemini CLI in which nobody says anything, which is not what their folder says."""


def transcripts() -> list[Path]:
    """Return all files of all folders."""
    found = (path for path in sorted(FOLDER.rglob("*")) if path.is_file() and path.name not in ABOUT)
    return list(found) if HERE else [Path("absent")]


def outcome(path: Path) -> Report | str:
    """Return the report of an import into an empty log, or the words of the refusal."""
    with stenolog.open(":memory:") as log:
        try:
            return import_file(log, path)
        except UnknownFormatError as error:
            return str(error)


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name[-40:]}"


needs_transcripts = pytest.mark.skipif(not HERE, reason="the transcripts are not beside this checkout")


@needs_transcripts
@pytest.mark.parametrize("path", transcripts(), ids=_name)
def test_a_file_is_imported_or_refused_by_the_name_of_its_format(path: Path) -> None:
    found = outcome(path)
    if isinstance(found, str):
        assert path.parent.name not in IMPORTED
        assert found.endswith(REASONS), found
        assert ("an empty file" in found) == path.name.endswith(EMPTY)
        return

    assert path.parent.name not in REFUSED
    assert [one.failed for one in found.conversations if one.failed] == []
    lost = [skip.reason for one in found.conversations for skip in one.skipped]
    assert [reason for reason in lost if "cannot be taken down" in reason] == []


@needs_transcripts
def test_no_file_but_an_empty_chat_is_imported_without_a_message() -> None:
    silent = [
        _name(path)
        for path in transcripts()
        if path.parent.name in IMPORTED
        and isinstance(found := outcome(path), Report)
        and not found.holds_a_conversation
    ]

    assert silent == SILENT
