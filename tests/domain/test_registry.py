"""Registries: what is known by a name, and what is said about a name that nobody has registered."""

from __future__ import annotations

from fractions import Fraction

import pytest

from stenolog.errors import CallerError, NotRegisteredError
from stenolog.plugins import LazyRegistry, Registry


def define(answer: int) -> type:
    """Return a class of one and the same name, as a cell of a notebook defines it each time it is run."""
    made = type("Fruit", (), {"answer": answer, "__module__": "notebook"})
    made.__qualname__ = "Fruit"
    return made


def test_a_registry_is_a_mapping_in_the_order_of_registration() -> None:
    registry: Registry[int] = Registry("a number", {"two": 2})
    registry.add("one", 1)

    assert dict(registry) == {"two": 2, "one": 1}
    assert registry.get("three") is None
    assert repr(registry) == "<Registry of a number: two, one>"


def test_a_name_that_nobody_has_registered_is_answered_with_those_that_are_known() -> None:
    registry: Registry[int] = Registry("a number", {"two": 2})

    with pytest.raises(NotRegisteredError) as caught:
        registry["three"]

    assert str(caught.value).startswith("expected a number: two; found 'three': a plugin may add it: install")
    assert isinstance(caught.value, CallerError)


def test_a_name_is_taken_once_but_a_class_may_be_defined_anew() -> None:
    registry: Registry[type] = Registry("a fruit")
    registry.add("apple", define(1))
    again = registry.add("apple", define(2))

    assert registry["apple"] is again
    with pytest.raises(CallerError, match="a fruit 'apple' is registered already"):
        registry.add("apple", int)
    with pytest.raises(CallerError, match="expected a name for a fruit, found ''"):
        registry.add("", int)


def test_what_was_removed_is_not_known_any_more() -> None:
    registry: Registry[int] = Registry("a number", {"two": 2})
    registry.remove("two")

    assert list(registry) == []
    with pytest.raises(NotRegisteredError, match="expected a number: none is known; found 'two'"):
        registry.remove("two")


def test_what_a_block_adds_or_removes_is_taken_back_at_its_end() -> None:
    registry: Registry[int] = Registry("a number", {"two": 2})

    with registry.restored():
        registry.add("one", 1)
        registry.remove("two")
        assert dict(registry) == {"one": 1}

    assert dict(registry) == {"two": 2}


def test_additions_are_named_with_their_versions_and_what_ships_is_none() -> None:
    registry: Registry[type] = Registry("a registry", {"own": Registry})
    registry.add("fruit", define(1))

    assert registry.additions() == ("fruit@",)


def test_a_reference_is_imported_when_it_is_looked_up() -> None:
    registry: LazyRegistry[object] = LazyRegistry("a thing")
    registry.add_reference("fraction", "fractions:Fraction")
    registry.add_reference("nothing", "no_such_module:name")

    assert list(registry) == ["fraction", "nothing"]
    assert registry["fraction"] is Fraction
    with pytest.raises(ModuleNotFoundError):
        registry["nothing"]
    with pytest.raises(CallerError, match="expected module:attribute, found 'fractions'"):
        registry.add_reference("other", "fractions")


@pytest.mark.parametrize("name", ["open", "openai-caht", "OpenAI"])
def test_a_slip_or_a_beginning_is_answered_with_the_name(name: str) -> None:
    apis: Registry[int] = Registry("an API", {"openai-chat": 1, "openai-responses": 2})

    with pytest.raises(NotRegisteredError, match="; did you mean 'openai-chat'"):
        apis[name]
