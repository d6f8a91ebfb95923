"""Plain functions as tools: what the model is told of them, and what becomes of its arguments."""

from __future__ import annotations

import asyncio
import functools
import re
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from stenolog.adapters.tools.base import ToolContext
from stenolog.adapters.tools.functions import Function, tool
from stenolog.domain.errors import CallerError
from tests.tools.given import error, outcome, text


class Place(BaseModel):
    """Where to look."""

    path: str
    lines: tuple[int, int] = (1, 10)


@dataclass
class Style:
    tabs: bool = False


def search(
    where: Place,
    word: Annotated[str, Field(description="What to look for", min_length=1)],
    order: Literal["first", "last"] = "first",
    style: Style | None = None,
    *,
    most: int = Field(20, le=100),
) -> str:
    """Search a file.

    Gives the lines.
    """
    return f"{where} {word} {order} {style} {most}"


# What the model is told


def test_the_schema_is_read_off_the_signature_without_titles() -> None:
    made = tool(search)

    assert made.spec.name == "search"
    assert made.spec.description == "Search a file.\n\nGives the lines."
    assert made.spec.parameters == {
        "type": "object",
        "properties": {
            "where": {"$ref": "#/$defs/Place"},
            "word": {"description": "What to look for", "minLength": 1, "type": "string"},
            "order": {"default": "first", "enum": ["first", "last"], "type": "string"},
            "style": {"anyOf": [{"$ref": "#/$defs/Style"}, {"type": "null"}]},
            "most": {"default": 20, "maximum": 100, "type": "integer"},
        },
        "required": ["where", "word"],
        "additionalProperties": False,
        "$defs": {
            "Place": {
                "type": "object",
                "description": "Where to look.",
                "properties": {
                    "path": {"type": "string"},
                    "lines": {
                        "type": "array",
                        "default": [1, 10],
                        "minItems": 2,
                        "maxItems": 2,
                        "prefixItems": [{"type": "integer"}, {"type": "integer"}],
                    },
                },
                "required": ["path"],
            },
            "Style": {
                "type": "object",
                "properties": {"tabs": {"type": "boolean", "default": False}},
                "additionalProperties": False,
            },
        },
    }


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    assert tool(lambda: 1, name="f").spec.parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_parameters_may_have_names_that_mean_something_to_pydantic() -> None:
    def f(model_config: int, _hidden: str, copy: bool, title: str, properties: str) -> str:
        return f"{model_config} {_hidden} {copy} {title} {properties}"

    given = {"model_config": 1, "_hidden": "a", "copy": True, "title": "b", "properties": "c"}

    assert list(tool(f).spec.parameters["properties"]) == list(given)  # type: ignore[arg-type]
    assert text(outcome(tool(f), given)) == "1 a True b c"


def test_a_default_that_is_no_json_is_left_out_of_the_schema_and_used_all_the_same() -> None:
    missing = object()

    def f(value: Any = missing) -> str:
        return str(value is missing)

    assert tool(f).spec.parameters["properties"] == {"value": {}}
    assert text(outcome(tool(f))) == "True"


def test_a_decorator_takes_what_a_call_takes() -> None:
    @tool(name="other", description="Otherwise.", approval=True, repeat="safe", timeout=1.5, limit=10)
    def f() -> str:
        """Return the letter x."""
        return "x"

    assert (f.spec.name, f.spec.description, f.spec.approval) == ("other", "Otherwise.", True)
    assert (f.repeat, f.timeout, f.limit, f.approves) == ("safe", 1.5, 10, None)
    assert f() == "x"
    assert repr(f) == "<tool other>"


def test_approval_may_depend_on_the_arguments() -> None:
    def dangerous(arguments: Any) -> bool:
        return bool(arguments.get("force"))

    made = tool(search, approval=dangerous)

    assert made.spec.approval is True
    assert made.approves is dangerous


def test_a_parameter_annotated_call_is_filled_with_the_call_and_not_told_to_the_model() -> None:
    def pay(amount: int, call: ToolContext) -> str:
        return f"{amount} {call.key} {call.lane} {call.conversation_name} {call.id}"

    made = tool(pay, repeat="keyed")

    assert list(made.spec.parameters["properties"]) == ["amount"]  # type: ignore[arg-type]
    assert text(outcome(made, {"amount": 3})) == "3 key-1 coder build c1"
    assert "no such argument; there are amount" in error(made, {"amount": 3, "call": {}})


def test_positional_only_parameters_methods_partials_and_objects_that_can_be_called_will_do() -> None:
    class Shelf:
        def __init__(self, at: str) -> None:
            self.at = at

        def look(self, n: int, /, *, up: bool = False) -> str:
            return f"{self.at} {n} {up}"

        async def __call__(self, n: int) -> str:
            return f"async {self.at} {n}"

    shelf = Shelf("top")
    half = functools.partial(shelf.look, up=True)

    assert text(outcome(tool(shelf.look), {"n": 1})) == "top 1 False"
    assert text(outcome(tool(half, name="half"), {"n": 2})) == "top 2 True"
    assert tool(shelf).spec.name == "Shelf"
    assert text(outcome(tool(shelf), {"n": 3})) == "async top 3"


# What is refused at once


def stars(*paths: str) -> str:
    return ""


def double(**options: str) -> str:
    return ""


def odd(lock: threading.Lock) -> str:
    return ""


def unresolved(place: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821 - that is the point
    return ""


def no_schema(when: Callable[[], int]) -> str:
    return ""


async def generator() -> AsyncIterator[str]:
    yield ""


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (stars, r"stars: expected parameters with names that a model can be told, found \*paths: str"),
        (double, r"double: expected parameters with names .*, found \*\*options"),
        (odd, "odd: expected parameters that have a JSON Schema"),
        (no_schema, "no_schema: expected parameters that have a JSON Schema"),
        (unresolved, "unresolved: its signature cannot be read: name 'Nowhere' is not defined"),
        (generator, "generator: expected a function that returns its result, found an async generator"),
        (lambda: 1, "expected a tool's name of letters, .* found '<lambda>'; give another by name="),
    ],
)
def test_a_function_that_no_model_can_be_told_is_refused_at_its_definition(
    function: Callable[..., Any], what: str
) -> None:
    with pytest.raises(CallerError, match=what):
        tool(function)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"name": "a b"}, "found 'a b'"),
        ({"name": "1st"}, "found '1st'"),
        ({"name": "x" * 65}, "found 'xxx"),
        ({"repeat": "often"}, "search: repeat: expected never, safe or keyed, found 'often'"),
        ({"repeat": "keyed"}, 'search: repeat="keyed" expects a parameter annotated `ToolContext`'),
        ({"timeout": 0}, "search: timeout: expected seconds above 0, or None, found 0"),
        ({"limit": 0}, "search: limit: expected at least 1 byte, found 0"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(CallerError) as caught:
        tool(search, **options)

    assert what in str(caught.value)


# The model's arguments


def test_arguments_are_read_as_pydantic_reads_them() -> None:
    made = tool(search)
    given = {"where": {"path": "a", "lines": [2, 3]}, "word": "x", "style": {"tabs": True}, "most": "5"}

    assert text(outcome(made, given)) == "path='a' lines=(2, 3) x first Style(tabs=True) 5"


def test_a_number_that_is_none_is_refused() -> None:
    def f(share: float) -> float:
        return share

    assert "/share: expected a finite number" in error(tool(f), raw='{"share": NaN}')


@pytest.mark.parametrize("raw", ["", "  \n", "{}"])
def test_no_arguments_are_an_empty_object(raw: str) -> None:
    assert text(outcome(tool(lambda: "ran", name="f"), raw=raw)) == "ran"


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        ("{", 'search: expected the arguments as a JSON object: EOF while parsing an object .*, found "{"'),
        ("[]", "/?the arguments: expected an object, found a list of 0"),
        ('"{}"', 'the arguments: expected an object, found "{}"'),
        ("{}", "/where: expected a value, found none\n/word: expected a value, found none"),
        ('{"where": {"path": "a", "lines": [1, "b"]}, "word": "x"}', "/where/lines/1: .*integer.*found .b"),
        ('{"where": {"path": "a"}, "word": ""}', "/word: .*at least 1 character, found \"\""),
        ('{"where": {"path": "a"}, "word": "x", "order": "up"}', "/order: expected 'first' or 'last'"),
        ('{"where": {"path": "a"}, "word": "x", "many": 5}', "/many: no such argument; there are where,"),
        ('{"where": {"path": "a"}, "word": "x", "style": {"tab": 1}}', "/style/tab: no such field, found 1"),
        ('{"where": null, "word": {"a": 1}}', "/word: expected a valid string, found an object"),
        ('{"word": "\ud83d"}', "/where: expected a value"),
        ("[" * 100_000, "search: expected the arguments as a JSON object: recursion limit exceeded"),
        ('{"word": "' + "x" * 1_000_000 + '}', "EOF while parsing a string"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_go_back_to_the_model_with_what_was_expected_found_and_where(
    raw: str, what: str
) -> None:
    said = error(tool(search), raw=raw)

    assert re.search(what, said), said
    assert len(said) < 1_500
    assert "pydantic" not in said


def test_places_are_named_up_to_five_and_counted_beyond() -> None:
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    few, many = error(tool(total), {"numbers": ["a"] * 7}), error(tool(total), {"numbers": ["a"] * 5_000})

    assert few.splitlines()[1].startswith("/numbers/0: expected a valid integer")
    assert few.splitlines()[-1] == "and 2 more"
    assert many == "total: the arguments do not fit the schema in 5,000 places"


def test_arguments_of_10_mb_arrive_whole() -> None:
    async def size(content: str) -> int:
        return len(content)

    assert text(outcome(tool(size), {"content": "x" * 10_000_000})) == "10000000"


# Threads


def test_a_sync_function_runs_in_a_thread_that_does_not_keep_the_process_and_an_async_one_in_the_loop() -> (
    None
):
    def inside() -> list[object]:
        return [threading.current_thread().daemon, threading.current_thread() is threading.main_thread()]

    async def beside() -> list[object]:
        return [threading.current_thread().daemon, threading.current_thread() is threading.main_thread()]

    assert (tool(inside).stops, tool(beside).stops) == (False, True)
    assert text(outcome(tool(inside))) == "[true,false]"
    assert text(outcome(tool(beside))) == "[false,true]"


def test_sync_tools_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=5)
    made = tool(lambda: str(both.wait() in (0, 1)), name="f")

    async def main() -> list[str]:
        from stenolog.adapters.tools.execute import execute
        from tests.tools.given import call

        return [text(found) for found in await asyncio.gather(*(execute(made, call(), []) for _ in "ab"))]

    assert asyncio.run(main()) == ["True", "True"]


def test_a_function_that_gives_something_to_await_is_awaited() -> None:
    async def later(n: int) -> str:
        return f"later {n}"

    made: Function = tool(lambda n: later(n), name="f")

    assert text(outcome(made, {"n": 1})) == "later 1"
