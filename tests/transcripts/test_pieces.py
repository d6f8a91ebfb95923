"""A session imported while it grows gives the same requests as imported at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import stenolog
from stenolog.errors import UnknownFormatError
from stenolog.importers import import_file
from tests.requests.corpus import TRANSCRIPTS, files

from .acceptance import digests

HERE = TRANSCRIPTS.is_dir()
LINES = files("claude_code", "claude_code_fixtures", "codex") if HERE else [Path("absent")]
EVERY = int(os.environ.get("STENOLOG_CUTS_EVERY", "61"))
"""Every so manieth line is a place to cut at; 1 is every line."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HERE, reason="the transcripts are not beside this checkout"),
]


def imported(path: Path, *versions: bytes) -> dict[tuple[str, str, str], str]:
    """Return the requests after importing a file each time it has grown."""
    with stenolog.open(":memory:") as log:
        for content in versions:
            path.write_bytes(content)
            try:
                import_file(log, path)
            except UnknownFormatError:
                continue
        return digests(log)


@pytest.mark.parametrize("file", LINES, ids=lambda path: path.name[-30:])
def test_a_file_cut_at_a_line_and_imported_in_two_pieces_gives_the_same_requests(
    file: Path, tmp_path: Path
) -> None:
    content = file.read_bytes()
    lines = content.splitlines(keepends=True)
    copy = tmp_path / file.name
    whole = imported(copy, content)

    for cut in range(1, len(lines), EVERY):
        assert imported(copy, b"".join(lines[:cut]), content) == whole, f"cut behind line {cut}"
