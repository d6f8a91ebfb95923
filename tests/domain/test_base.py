"""What the domain is built on: the errors, whose fault it is, and how they travel between processes."""

from __future__ import annotations

import copy
import pickle
import re
from fractions import Fraction
from typing import Annotated, Literal

import pytest

from stenolog import AgentCard, AssistantMessage, ToolCall, ToolResult, UserMessage
from stenolog.domain import errors
from stenolog.domain.base.near_names import closest
from stenolog.domain.base.value_help import (
    field_names,
    no_such_field,
    quoted,
    slips,
    type_name,
    with_inherited_attributes,
)
from stenolog.errors import CallerError, NotRegisteredError
from stenolog.events import CallRef
from stenolog.plugins import LazyRegistry, Registry

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


# Registries: what is known by a name, and what is said about a name that nobody has registered.


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


# Near names: the known name that a misspelt one was meant to be.


AGENTS = ["coder", "Reviewer", "planner", "tool_choice", "to"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("codr", "coder"),
        ("CODER", "coder"),
        ("reviewer", "Reviewer"),
        ("rev", "Reviewer"),
        ("planner-2", "planner"),
        ("toolchoice", "tool_choice"),
        ("writer", ""),
        ("torch", ""),
        ("", ""),
    ],
)
def test_case_underscores_and_a_missing_end_do_not_count(written: str, meant: str) -> None:
    assert closest(written, AGENTS) == meant


def test_a_beginning_counts_only_where_it_is_asked_for() -> None:
    assert closest("rev", AGENTS, begins=False) == ""


def test_of_names_that_differ_in_case_alone_the_first_is_meant() -> None:
    assert closest("Coder", ["CODER", "coder"]) == "CODER"


# The help that value classes give: names, signatures, and a short `repr`.


def test_a_value_is_quoted_whole_up_to_60_characters() -> None:
    assert quoted("a" * 58) == f"'{'a' * 58}'"
    assert quoted("a" * 59) == f"'{'a' * 58}…"


def test_an_unknown_field_is_met_with_the_closest_name_and_all_names() -> None:
    assert no_such_field(["txet"], ["text", "to"]) == (
        "no such field: txet; did you mean text? There are text, to"
    )
    assert no_such_field(["zzz"], []) == "no such field: zzz. There are none"
    assert "did you mean persona" in no_such_field(["prompt"], ["persona"])
    assert "blob=log.blobs.put(data)" in no_such_field(["data"], ["blob"])
    assert "blob=" not in no_such_field(["zzz"], ["blob"])


def test_a_slip_is_a_key_like_a_known_one_that_is_missing() -> None:
    known = ["tool_call_id", "content"]

    assert slips({"tool_calls_id": 1}, known) == "no such key: tool_calls_id; did you mean tool_call_id?"
    assert slips({"tool_calls_id": 1, "tool_call_id": 2, "content": 3}, known) == ""
    assert slips({"seed": 1}, known) == ""
    assert slips({"error": 1}, ["is_error"]) == "no such key: error; did you mean is_error?"


def test_a_signature_has_what_is_given_by_place_first_and_the_type_last() -> None:
    assert field_names(UserMessage)[0] == "text"
    assert field_names(ToolCall)[-1] == "type"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Annotated[int, "positive"], "int"),
        (tuple[str, ...], "Sequence[str]"),
        (tuple[str, int], "tuple[str, int]"),
        (int | None, "int | None"),
        (Literal["a", 1], "Literal['a', 1]"),
        (dict[str, list[int]], "dict[str, list[int]]"),
    ],
)
def test_a_type_is_named_as_one_would_write_it(kind: object, name: str) -> None:
    assert type_name(kind) == name


def test_a_repr_has_what_is_no_default_and_short_names_of_parts() -> None:
    call = ToolCall(id="c", name="shell")

    assert repr(UserMessage("Hi", author="Ada")) == "UserMessage(text='Hi', author='Ada')"
    assert repr(AgentCard()) == "AgentCard()"
    assert repr(AssistantMessage(agent="a", tool_calls=[call])) == (
        "AssistantMessage(agent='a', tool_calls=(ToolCall(id='c', name='shell'),))"
    )
    assert repr(ToolResult(call_id="c", call=CallRef(entry="e"))) == (
        "ToolResult(call_id='c', call=CallRef(entry='e'))"
    )
    assert len(repr(UserMessage("x" * 5_000))) < 100


def test_attributes_of_bases_follow_a_classs_own() -> None:
    class Base:
        """A base.

        Attributes:
            one: First.
        """

    assert with_inherited_attributes("A value.", [Base]) == "A value."
    joined = with_inherited_attributes("A value.\n\nAttributes:\n    two: Second.\n", [Base])
    assert joined.index("two: Second.") < joined.index("one: First.")
