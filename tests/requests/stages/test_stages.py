"""The stages of a request have the same numbers, names and moments wherever they are told of."""

from __future__ import annotations

import re
from pathlib import Path

from stenolog.projections.requests import builder

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "explanation"
HEAD = builder.__doc__ or ""
STAGES = re.findall(r"^ {4}(\d) (\w+) .*\(`(\w+)`\)$", HEAD, re.MULTILINE)


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


def test_each_stage_stands_in_a_file_of_its_own_that_opens_with_its_name() -> None:
    room = Path(builder.__file__).parent / "pipeline"
    for number, stage, file in STAGES[:7]:
        assert (room / f"{file}.py").read_text().startswith(f'"""Stage {number}, {stage}: '), file


def test_no_program_imports_the_builder() -> None:
    package = Path(builder.__file__).parents[2]
    imports = re.compile(r"^ *(?:from|import) .*\bbuilder\b", re.MULTILINE)
    found = [path.name for path in package.rglob("*.py") if imports.search(path.read_text())]

    assert found == []
