"""The errors: whose fault it is, as the tree says; they travel between processes."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from stenolog.domain import errors

CLASSES = {
    name: cls
    for name, cls in vars(errors).items()
    if isinstance(cls, type) and issubclass(cls, errors.StenologError)
}
CAUSES = {
    "VersionConflictError": errors.VersionConflictError("demo", expected=3, found=4),
    "MissingExtraError": errors.MissingExtraError("postgres", "psycopg"),
    "ModelError": errors.ModelError("overloaded", "busy", retry_after=2.5, status=529),
}


def drawn() -> dict[str, str]:
    """Return each error of the tree at the top of the module, with its parent."""
    parents: dict[str, str] = {}
    above: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"^([│├└─ ]*)([A-Z]\w+)\b", line):
            depth = len(found[1])
            above[depth] = found[2]
            if depth:
                parents[found[2]] = above[depth - 4]
    return parents


def test_the_tree_on_top_of_the_module_is_that_of_the_classes() -> None:
    hung = {name: cls.__bases__[0].__name__ for name, cls in CLASSES.items() if name != "StenologError"}

    assert drawn() == hung


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_survives_the_way_between_two_processes(name: str) -> None:
    error = CAUSES.get(name) or CLASSES[name]("expected 3, found 4")

    for travelled in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(travelled) is CLASSES[name]
        assert str(travelled) == str(error)
        assert vars(travelled) == vars(error)


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("InvalidEventError", ValueError),
        ("ConversationNotFoundError", LookupError),
        ("PositionNotFoundError", LookupError),
        ("AgentNotFoundError", LookupError),
        ("UnknownFormatError", ValueError),
        ("MissingExtraError", ImportError),
        ("BlobNotFoundError", KeyError),
        ("StoreTimeoutError", TimeoutError),
        ("StoreError", OSError),
    ],
)
def test_an_error_is_also_what_python_calls_its_like(name: str, builtin: type[Exception]) -> None:
    assert issubclass(CLASSES[name], builtin)
    assert str(CLASSES["BlobNotFoundError"]("expected a blob")) == "expected a blob"


def test_a_stale_append_says_what_was_expected_and_what_was_found() -> None:
    stale = CAUSES["VersionConflictError"]

    assert str(stale) == "conversation 'demo': expected position 3, but the log stands at 4"
    assert vars(stale) == {"conversation": "demo", "expected": 3, "found": 4}


def test_a_missing_extra_is_the_line_that_installs_it() -> None:
    assert 'pip install "stenolog[postgres]"' in str(CAUSES["MissingExtraError"])
