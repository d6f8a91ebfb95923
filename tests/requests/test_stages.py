"""The stages of a request have the same numbers, names and moments wherever they are told of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stenolog.projections.requests import builder
from stenolog.projections.requests.pipeline import view

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "explanation"
HEAD = builder.__doc__ or ""
STAGES = re.findall(r"^ {4}(\d) (\w+) .*\(`(\w+)`\)$", HEAD, re.MULTILINE)
# A page tells of both in one sentence or two; the words are those of the builder's head.
ON_ARRIVAL = r"(?:arrival 1|arrival \(1\)|Stage 1 decides on arrival)"
AFTER_EACH_ENTRY = (
    r"(?:7 cuts the view|7 works after each entry|stage 7 \(`budget.fit`, `budget.tidy`\), after)"
)


def test_the_builders_head_numbers_eight_stages() -> None:
    assert [number for number, _, _ in STAGES] == [*"12345678"]


def test_the_page_on_requests_names_the_stages_in_the_builders_order() -> None:
    headings = re.findall(r"^\*\*(\d)\. (\w+)\.\*\*", (DOCS / "requests.md").read_text(), re.MULTILINE)

    assert headings == [(number, name.capitalize()) for number, name, _ in STAGES]


def test_the_page_on_the_architecture_lists_the_stages_files_in_the_builders_order() -> None:
    page = (DOCS / "architecture.md").read_text()
    listed = re.findall(r"^(\d)\. `projections/requests/pipeline/(\w+)\.py`", page, re.MULTILINE)

    assert listed == [(number, file) for number, _, file in STAGES[:7]]
    assert re.search(r"^8\. `projections/formats/\w+/write\.py`", page, re.MULTILINE)


def test_the_builders_head_has_each_stage_at_its_moments() -> None:
    moments = dict(
        re.findall(r"^ {4}(on arrival|after each entry|at a request) +([\d a-z]*\d)", HEAD, re.MULTILINE)
    )

    assert moments == {"on arrival": "1", "after each entry": "7", "at a request": "1 to 6 and 8"}


@pytest.mark.parametrize("told", [view.__doc__, "requests.md", "architecture.md"])
def test_stage_1_works_on_arrival_and_stage_7_after_each_entry_on_every_page(told: str) -> None:
    text = (DOCS / told).read_text() if told.endswith(".md") else told
    words = " ".join(text.split())

    assert re.search(ON_ARRIVAL, words)
    assert re.search(AFTER_EACH_ENTRY, words)
