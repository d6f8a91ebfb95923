"""Signatures of plain functions: JSON Schema for a model, and a call's arguments.

Pydantic reads annotations, `Field` and defaults off the signature.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import from_json

from stenolog.domain.errors import CallerError, ToolError
from stenolog.domain.values import Tool
from stenolog.projections.formats.gemini.write import function_name

T = TypeVar("T")
FILLED: set[object] = set()
"""Types of parameters that are filled with the call itself, and not shown to a model."""


def filled_with_the_call(cls: type[T]) -> type[T]:
    """Have parameters of this type filled with the call itself."""
    FILLED.add(cls)
    return cls


class Called(Protocol):
    """A call of a tool, with the model's raw arguments."""

    @property
    def arguments(self) -> str:
        """The raw string."""
        ...


def tool_spec(
    function: Callable[..., Any],
    parameters: Parameters,
    *,
    name: str,
    description: str | None = None,
    approval: bool = False,
    ends_run: bool = False,
) -> Tool:
    """Return a function's description for a model; by default its docstring.

    Raises `CallerError` for a name that some provider refuses.
    """
    return Tool(
        name=checked_name(name),
        description=inspect.getdoc(function) or "" if description is None else description,
        parameters=parameters.schema,
        approval=approval,
        ends_run=ends_run,
    )


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of a callable object."""
    return str(getattr(function, "__name__", type(function).__name__))


def checked_name(name: str) -> str:
    """Return the name if every provider accepts it: the model calls the tool by it."""
    if not name or function_name(name) != name:
        what = "letters, digits, _ and -, a letter or _ first, at most 64"
        raise CallerError(f"expected a tool's name of {what}, found {name!r:.100}; give another by name=")
    return name


LONGEST_WORD = 100
"""Characters that are shown of a value that does not fit."""
COMPLAINTS = 5
"""Places that are named if the arguments do not fit."""
COUNTED = 1_000
"""From so many on they are only counted: to name them takes seconds and gigabytes."""
_SCHEMAS_BY_NAME = ("properties", "$defs", "patternProperties", "dependentSchemas")
_DATA = ("default", "const", "enum", "examples")
_STRANGE = ("extra_forbidden", "unexpected_keyword_argument")
_Kind = inspect.Parameter


def json_object(text: str) -> dict[str, Any]:
    """Return the model's arguments as an object. Raises `ToolError`."""
    try:
        given = from_json(_utf8(text), allow_inf_nan=False)
    except ValueError as error:
        raise ToolError(f"expected the arguments as a JSON object: {error}, found {_found(text)}") from None
    if not isinstance(given, dict):
        raise ToolError(f"expected the arguments as a JSON object, found {_found(text)}")
    return given


class Given(NamedTuple):
    """Arguments that a function is called with."""

    positional: list[Any]
    named: dict[str, Any]


class SchemaWriter(GenerateJsonSchema):
    """Writer of JSON Schemas without warnings."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own


class Parameters:
    """A function's parameters, except those filled with the call itself.

    `schema` is their JSON Schema, of type object. Raises `CallerError` for what a model cannot be told.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        parameters = _signature(function, name)
        self._name = name
        self._positional = [p.name for p in parameters if p.kind is _Kind.POSITIONAL_ONLY]
        self._calls = [p.name for p in parameters if _is_filled(p)]
        self._taken = [p.name for p in parameters if not _is_filled(p)]
        self._model = _model([p for p in parameters if not _is_filled(p)], name)
        self.schema = model_schema(self._model, name)
        self.takes_call = bool(self._calls)

    def read(self, call: Called) -> Given:
        """Return the function's arguments.

        Raises `ToolError` with expected, found and place.
        """
        try:
            read = self._model.model_validate_json(_utf8(call.arguments))
        except ValidationError as error:
            words = complaint(error, call.arguments, "the arguments", self._taken)
            raise ToolError(f"{self._name}: {words}") from None
        values = {name: getattr(read, f"p{nth}") for nth, name in enumerate(self._taken)}
        values |= dict.fromkeys(self._calls, call)
        return Given([values.pop(name) for name in self._positional], values)


def complaint(error: ValidationError, text: str, what: str, known: Collection[str]) -> str:
    """Return what does not fit in a text of JSON, with expected, found and place.

    `what` names the text, `known` are the names that its object may have.
    """
    count = error.error_count()
    if count > COUNTED:
        return f"{what} do not fit the schema in {count:,} places"
    errors = error.errors(include_url=False)
    first = errors[0]
    if first["type"] == "json_invalid":
        return f"expected {what} as a JSON object: {first['ctx']['error']}, found {_found(text)}"
    lines = [_line(found["type"], found, what, known) for found in errors[:COMPLAINTS]]
    more = [f"and {count - COMPLAINTS} more"] if count > COMPLAINTS else []
    return "\n".join((f"{what} do not fit", *lines, *more))


def _line(kind: str, error: Any, what: str, known: Collection[str]) -> str:
    place = "".join(f"/{step}" for step in error["loc"])[:LONGEST_WORD] or what
    if kind == "missing":
        return f"{place}: expected a value, found none"
    if kind in _STRANGE and len(error["loc"]) == 1:
        return f"{place}: no such argument; there {_listed(known)}"
    expected = "no such field" if kind in _STRANGE else error["msg"]
    expected = expected.replace("Input should be", "expected").replace("Value error, ", "")
    return f"{place}: {expected[: 3 * LONGEST_WORD]}, found {_found(error['input'])}"


def _is_filled(parameter: inspect.Parameter) -> bool:
    # Also with the type of its dependencies: `ToolContext[Deps]`.
    kind = get_origin(parameter.annotation) or parameter.annotation
    return any(kind is each for each in FILLED)


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace") if text.strip() else b"{}"


def _signature(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except (ValueError, TypeError, NameError) as error:
        raise CallerError(f"{name}: its signature cannot be read: {error}") from None
    for parameter in parameters:
        if parameter.kind in (_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD):
            raise CallerError(
                f"{name}: expected parameters with names that a model can be told, found {parameter}"
            )
    return parameters


def _model(parameters: list[inspect.Parameter], name: str) -> type[BaseModel]:
    """Return a model with a field for each parameter.

    Fields are numbered: a parameter's name may be no valid field name.
    """
    try:
        fields: dict[str, Any] = {f"p{nth}": _field(parameter) for nth, parameter in enumerate(parameters)}
        return create_model("Arguments", __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)
    except (PydanticUserError, TypeError, NameError) as error:
        raise _unfit(error, name) from None


def _field(parameter: inspect.Parameter) -> tuple[Any, Any]:
    annotation: Any = Any if parameter.annotation is _Kind.empty else parameter.annotation
    default = ... if parameter.default is _Kind.empty else parameter.default
    return Annotated[annotation, Field(alias=parameter.name)], default


def model_schema(model: type[BaseModel], name: str) -> dict[str, Any]:
    """Return the JSON Schema of a model's fields, of type object.

    Raises `CallerError`, with the name of what they are for, if there is none.
    """
    try:
        schema: dict[str, Any] = without_titles(model.model_json_schema(schema_generator=SchemaWriter))
    except PydanticUserError as error:
        raise _unfit(error, name) from None
    return {"type": "object", "properties": {}} | schema


def _unfit(error: Exception, name: str) -> CallerError:
    what = str(error).partition("\n")[0]
    return CallerError(f"{name}: expected parameters that have a JSON Schema, found others: {what}")


def without_titles(schema: Any) -> Any:
    """Return the schema without titles, which repeat names, and `"default": null`."""
    if isinstance(schema, list):
        return [without_titles(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: inner for key, inner in schema.items() if key != "title"}
    if kept.get("default", ...) is None:
        del kept["default"]
    return {key: inner if key in _DATA else _without_titles(key, inner) for key, inner in kept.items()}


def _without_titles(key: str, inner: Any) -> Any:
    if key not in _SCHEMAS_BY_NAME:
        return without_titles(inner)
    return {name: without_titles(schema) for name, schema in inner.items()}


def _found(value: object) -> str:
    """Return the value as found, shortened to a few characters."""
    match value:
        case dict():
            return "an object"
        case list():
            return f"a list of {len(value):,}"
        case str():
            return json.dumps(value[:LONGEST_WORD], ensure_ascii=False) + "…" * (len(value) > LONGEST_WORD)
        case _:
            return json.dumps(value, default=repr)[:LONGEST_WORD]


def _listed(names: Iterable[str]) -> str:
    return f"are {', '.join(names)}" if names else "are none"
