"""The public API: at most 30 names at the root, the rest in faces, and nothing else is imported by anyone."""

from __future__ import annotations

import builtins
import re
from importlib import import_module
from pathlib import Path

import pytest

import stenolog

ROOT = Path(__file__).parent.parent
FACES = sorted(path.stem for path in (ROOT / "stenolog").glob("*.py") if not path.stem.startswith("_"))
FACES.append("testing")
READERS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").rglob("*.py"),
    *(ROOT / "stenolog" / "contrib").rglob("*.py"),
    *(ROOT / "tests" / "typing").rglob("*.py"),
]


def test_the_root_has_at_most_30_names() -> None:
    assert len(stenolog.__all__) <= 30


def test_a_star_import_hides_no_builtin() -> None:
    assert set(stenolog.__all__) & set(dir(builtins)) == set()


@pytest.mark.parametrize("face", FACES)
def test_a_face_is_at_hand_once_the_package_is_imported(face: str) -> None:
    module = getattr(stenolog, face)

    assert module is import_module(f"stenolog.{face}")
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert face in dir(stenolog)


def test_readme_docs_examples_and_contrib_import_faces_alone() -> None:
    private = re.compile(r"(?:from|import) stenolog\.(?:adapters|domain|projections)\b.*")
    against = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in READERS
        for found in private.findall(path.read_text())
    ]

    assert len(READERS) > 50
    assert against == []


@pytest.mark.parametrize("package", ["adapters", "domain", "projections"])
def test_a_private_package_says_that_it_is_private(package: str) -> None:
    assert "Private: programs import from the faces" in (import_module(f"stenolog.{package}").__doc__ or "")
