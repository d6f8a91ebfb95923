"""What the import of each case in `golden` makes of its files: each record's rule, entry by entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.golden import FOLDER, Case, cases_in, listed

CASES = [
    (f"{path.stem}: {case.rule}", case) for path in sorted(FOLDER.glob("*.txt")) for case in cases_in(path)
]


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_an_import_makes_the_entries_that_its_case_lists(case: Case, tmp_path: Path) -> None:
    assert listed(case, tmp_path) == case.listing
