"""Laws of the schemas of values: pydantic makes the same of their annotations."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import date
from functools import reduce
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter
from pydantic_core import ArgsKwargs, SchemaSerializer, SchemaValidator, ValidationError

from stenolog import Entry, Settings, State
from stenolog.domain.base.model import rule
from stenolog.domain.base.schema import schema_of
from stenolog.domain.codec import REGISTRY
from stenolog.domain.lanes.step import INITIAL, evolve
from stenolog.domain.settings import NOTHING, configure
from stenolog.events import ModeSwitch, Unknown, UserMessage
from stenolog.parts import TextPart
from tests.strategies import KINDS, events, json_values, logs

ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {cls: TypeAdapter(cls) for cls in KINDS}
JUNK = st.one_of(
    json_values(), st.just("unchanged"), st.just(2**63), st.just([{"type": "text"}]), st.just([{"text": 1}])
)


def outcome(validate: Any, *given: Any, **named: Any) -> object:
    """Return the value, or all complaints."""
    try:
        return validate(*given, **named)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        return sorted((each["type"], repr(each["loc"]), each["msg"], repr(each["input"])) for each in found)


@st.composite
def nearly(draw: st.DrawFn) -> tuple[type[Any], dict[str, Any]]:
    """Return a kind of event, and the JSON of one with some fields or inner values exchanged."""
    event = draw(events().filter(lambda event: not isinstance(event, Unknown)))
    fields = json.loads(REGISTRY.dump(event)[1])
    for _ in range(draw(st.integers(0, 2))):
        inner: Any = fields
        key: Any = draw(st.sampled_from([*fields, "meta", "parts", "no such field"]))
        while isinstance(inner.get(key), dict) and inner[key] and draw(st.booleans()):
            inner = inner[key]
            key = draw(st.sampled_from([*inner]))
        inner[key] = draw(JUNK)
    return type(event), fields


@given(nearly())
def test_stored_json_is_read_and_refused_as_pydantic_does(case: tuple[type[Any], dict[str, Any]]) -> None:
    cls, fields = case
    payload = json.dumps(fields)

    assert outcome(cls.__pydantic_validator__.validate_json, payload) == outcome(
        ADAPTERS[cls].validator.validate_json, payload
    )


@given(nearly())
def test_given_fields_are_taken_and_refused_as_pydantic_does(case: tuple[type[Any], dict[str, Any]]) -> None:
    cls, fields = case
    found, expected = (
        outcome(each.validate_python, ArgsKwargs((), fields), self_instance=object.__new__(cls))
        for each in (cls.__pydantic_validator__, ADAPTERS[cls].validator)
    )

    assert found == expected


@given(events().filter(lambda event: not isinstance(event, Unknown)))
def test_an_event_is_written_as_pydantic_does(event: Any) -> None:
    found, expected = (
        each.to_json(event, exclude_defaults=True)
        for each in (type(event).__pydantic_serializer__, ADAPTERS[type(event)].serializer)
    )

    assert found == expected


@given(logs())
def test_a_state_is_written_and_read_as_pydantic_does(log: list[Entry]) -> None:
    for fold, kind in ((reduce(evolve, log, INITIAL), State), (reduce(configure, log, NOTHING), Settings)):
        schema, adapter = schema_of(kind), TypeAdapter[Any](kind)
        written = SchemaSerializer(schema).to_json(fold)

        assert written == adapter.dump_json(fold)
        assert SchemaValidator(schema).validate_json(written) == adapter.validate_json(written) == fold


class Tally(NamedTuple):
    """A state of an application's own, with types that only pydantic knows."""

    seen: set[str]
    last: date | None = None
    limit: Annotated[int, Field(ge=0)] = 3


def test_pydantic_is_asked_for_a_type_that_is_not_known_here() -> None:
    validator, written = SchemaValidator(schema_of(Tally)), b'[["a"],"2026-01-02"]'

    assert validator.validate_json(written) == Tally({"a"}, date(2026, 1, 2))
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        validator.validate_json(b'{"seen":[],"limit":-1}')


def test_pydantic_finds_the_words_and_types_of_a_value_in_a_model_of_an_application() -> None:
    schema = TypeAdapter(list[TextPart]).json_schema()["$defs"]["TextPart"]

    assert schema["description"].startswith("Plain text, as it was said.")
    assert schema["required"] == ["text"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("event", [UserMessage("hi", meta={"a": [1]}), ModeSwitch(joins=["coder"])])
def test_a_value_is_copied_and_pickled_and_never_changed(event: Any) -> None:
    same = (copy.copy(event), copy.deepcopy(event), pickle.loads(pickle.dumps(event)), replace(event))

    assert all(type(each) is type(event) and each == event for each in same)
    assert replace(event, run="other") != event
    with pytest.raises(FrozenInstanceError):
        event.run = "other"


def test_equal_values_have_one_hash_and_belong_to_one_class() -> None:
    assert {TextPart("hi"), TextPart("hi")} == {TextPart("hi")}
    others: list[object] = [UserMessage("hi"), "hi"]

    assert TextPart("hi") not in others
    with pytest.raises(TypeError, match="unhashable type: 'dict'"):
        hash(UserMessage("hi"))


def test_a_rule_whose_default_is_pydantics_field_is_refused_when_it_is_defined() -> None:
    with pytest.raises(TypeError, match=r"Bad\.n: expected a default or dataclasses\.field\(\)"):

        @rule
        class Bad:
            n: int = Field(default=1, ge=0)
