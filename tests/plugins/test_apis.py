"""An API of a plugin, defined anew as in a notebook, takes the place of its former self with its laws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from stenolog.errors import CallerError
from stenolog.requests import Format, Message, Preamble, Rendered, law, register_api, validate


def render(messages: Sequence[Message], preamble: Preamble, blobs: Mapping[str, bytes]) -> Rendered:
    return Rendered({}, ())


def another(messages: Sequence[Message], preamble: Preamble, blobs: Mapping[str, bytes]) -> Rendered:
    return Rendered({}, ())


@law
def says_something(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Say something in a body."""
    if not body:
        yield "", "is empty"


def test_its_laws_are_those_it_was_registered_with_last() -> None:
    register_api(Format("telegraph", 1, render))
    assert validate("telegraph", {}) == []

    register_api(Format("telegraph", 2, render, laws=(says_something,)))
    assert [violation.law for violation in validate("telegraph", {})] == ["says-something"]


def test_another_api_does_not_get_its_name() -> None:
    register_api(Format("telegraph", 1, render))
    with pytest.raises(CallerError, match="'telegraph' is registered already"):
        register_api(Format("telegraph", 1, another))
