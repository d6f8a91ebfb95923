"""Signatures: a file's format is seen from data, so that one importer is imported for it."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from stenolog.errors import UnknownFormatError
from stenolog.importers import IMPORTERS, Importer, JsonLinesReader
from stenolog.projections.programs import Signature, shows
from tests.requests.judging import SHARED

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
