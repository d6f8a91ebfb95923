"""Documents of agent frameworks in which any value may be another: none stops an import, or the next one."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stenolog
from stenolog.errors import StenologError
from stenolog.importers import import_file
from stenolog.projections.requests.proofs import invalid_requests
from tests.transcripts import test_adk, test_ai_sdk_4, test_pydantic_ai_files

HERE = Path(__file__).parent / "sessions"
DOCUMENTS: dict[str, Any] = {
    "ADK session": json.loads((HERE / "adk.json").read_bytes()),
    "ADK evaluation set": {
        "eval_set_id": "set",
        "eval_cases": [{"eval_id": "lamp", "conversation": [test_adk.NEW_TURN, test_adk.EVENTS_TURN]}],
    },
    "AI SDK 7": json.loads((HERE / "ai-sdk-7.json").read_bytes()),
    "AI SDK 4": test_ai_sdk_4.OLD,
    "pydantic-ai": test_pydantic_ai_files.OLD,
}
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    2**70,
    "",
    "x",
    "\ud800",
    "\x00",
    "a/b",
    "user",
    [],
    {},
    [None],
    {"a": 1},
    [[]],
)
SEEDS = 40


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all values inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


def damaged(document: Any, seed: int) -> Any:
    """Return the document with one to four of its values changed, removed or repeated."""
    chance, document = random.Random(seed), copy.deepcopy(document)
    for _ in range(chance.randint(1, 4)):
        found = list(places(document))
        if not found:
            break
        *way, last = chance.choice(found)
        inner = document
        for key in way:
            inner = inner[key]
        match chance.choice(["change", "change", "remove", "repeat"]):
            case "change":
                inner[last] = copy.deepcopy(chance.choice(VALUES))
            case "repeat" if isinstance(inner, list):
                inner.insert(last, copy.deepcopy(inner[last]))
            case _:
                del inner[last]
    return document


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_damaged_document_is_refused_or_imported_and_adds_nothing_twice(name: str, tmp_path: Path) -> None:
    path, imported = tmp_path / "document.json", 0
    for seed in range(SEEDS):
        path.write_text(json.dumps(damaged(DOCUMENTS[name], seed)))
        with stenolog.open(":memory:") as log:
            try:
                first = import_file(log, path)
            except StenologError:
                continue
            again = import_file(log, path)
            faults = [
                *(found.failed for found in first.conversations),
                *(
                    str(fault)
                    for conversation in log.names(archived=True)
                    for fault in invalid_requests(log[conversation].entries(), blobs=log.blobs)
                ),
            ]
            imported += 1

            assert [fault for fault in faults if fault and "a scenario" not in fault] == [], seed
            assert [found.appended for found in again.conversations if found.appended] == [], seed

    assert imported > SEEDS / 3
