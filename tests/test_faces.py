"""The public API: at most 30 names at the root, the rest in faces, and nothing else is imported by anyone."""

from __future__ import annotations

import builtins
import inspect
import re
import subprocess
import sys
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


def elsewhere() -> list[str]:
    """Return the names that stand in faces and not at the root."""
    names = {name for face in FACES for name in import_module(f"stenolog.{face}").__all__}
    return sorted(names - {*stenolog.__all__, *FACES, "open"})


@pytest.mark.parametrize("name", elsewhere())
def test_a_name_that_is_asked_of_the_root_is_answered_with_the_line_that_imports_it(name: str) -> None:
    with pytest.raises(ImportError) as importing:
        exec(f"from stenolog import {name}")
    with pytest.raises(AttributeError) as reading:
        getattr(stenolog, name)

    assert str(importing.value) == str(reading.value)
    line = str(importing.value).partition("did you mean: ")[2]
    found: dict[str, object] = {}
    exec(line, found)
    assert line.endswith(f" import {name}")
    assert name in found


def test_a_name_that_is_nowhere_is_missing_as_in_any_module() -> None:
    assert not hasattr(stenolog, "Nothing")
    assert not hasattr(stenolog, "__wrapped__")
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from stenolog import Nothing")


def test_a_package_below_the_root_is_imported_from_it_as_ever() -> None:
    code = "from stenolog import contrib; print(contrib.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stdout.strip() == "stenolog.contrib"


@pytest.mark.parametrize(
    "kind", [stenolog.Log, stenolog.Conversation, stenolog.AsyncLog, stenolog.AsyncConversation]
)
def test_no_method_of_a_log_takes_what_only_the_store_makes(kind: type) -> None:
    methods = inspect.getmembers(kind, inspect.isfunction)
    taken = {
        f"{name}({each})"
        for name, method in methods
        if not name.startswith("_")
        for each in inspect.signature(method).parameters.values()
    }

    assert [
        each for each in taken if re.search(r"\b(Stream|PendingEntry|Record|InTransaction)\b", each)
    ] == []
