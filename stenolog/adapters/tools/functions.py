"""Plain Python functions as tools: JSON Schema and values of their arguments, and the tools of an agent.

    @tool
    def read_file(path: Annotated[str, Field(description="Under the root")], limit: int = 100) -> str:
        '''Read a text file.'''

What a model is told of a function is its name, its docstring and its signature.

Pydantic reads both off the signature: annotations, `Field` and defaults mean what they mean to it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeAlias, get_args, overload

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import from_json

from stenolog.domain.errors import CallerError, ToolError
from stenolog.domain.values import Tool
from stenolog.projections.requests.wires.gemini import function_name

from .base import LIMIT, TIMEOUT, BaseTool, RetrySafety, ToolContext, ToolOutput, Toolset, in_thread
from .results import outcome_of

Approval: TypeAlias = bool | Callable[[Mapping[str, Any]], bool]
"""True if a person approves each call before it runs, or a function that decides by the call's arguments."""
AT_ONCE = 100_000
"""Characters of arguments that are read in the event loop; more of them in a thread."""


class Function(BaseTool):
    """A Python function as a tool; made by `tool`. It can still be called as the function that it is."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        approval: Approval = False,
        repeat: RetrySafety = "never",
        timeout: float | None = TIMEOUT,
        limit: int = LIMIT,
    ) -> None:
        name = str(name or getattr(function, "__name__", type(function).__name__))
        self._parameters = Parameters(function, name)
        self.function = function
        self.stops = _is_async(function, name)
        self.spec = Tool(
            name=checked_name(name),
            description=inspect.getdoc(function) or "" if description is None else description,
            parameters=self._parameters.schema,
            approval=bool(approval),
        )
        self.approves = approval if callable(approval) else None
        self.repeat, self.timeout, self.limit = checked(name, repeat, timeout, limit)
        if repeat == "keyed" and not self._parameters.takes_call:
            raise CallerError(
                f'{name}: repeat="keyed" expects a parameter annotated `ToolContext` that has the key'
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"

    async def run(self, call: ToolContext) -> ToolOutput:
        if not self.stops:
            made = await in_thread(partial(self._in_thread, call), f"tool {self.spec.name}")
            return made if isinstance(made, ToolOutput) else outcome_of(await made)
        given = await self._arguments(call)
        return outcome_of(await self.function(*given.positional, **given.named))

    def _in_thread(self, call: ToolContext) -> Any:
        """Return the result, or the awaitable of a function that is async but is not declared so."""
        given = self._parameters.read(call)
        value = self.function(*given.positional, **given.named)
        return value if inspect.isawaitable(value) else outcome_of(value)

    async def _arguments(self, call: ToolContext) -> Given:
        read = partial(self._parameters.read, call)
        return read() if len(call.arguments) <= AT_ONCE else await in_thread(read, "arguments")


@overload
def tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    repeat: RetrySafety = "never",
    timeout: float | None = TIMEOUT,
    limit: int = LIMIT,
) -> Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    repeat: RetrySafety = "never",
    timeout: float | None = TIMEOUT,
    limit: int = LIMIT,
) -> Callable[[Callable[..., Any]], Function]: ...
def tool(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return a function, sync or async, as a tool: used as `@tool`, `@tool(...)` or `tool(function, ...)`.

    The name and the description are the function's and its docstring's unless given. `approval`: whether a
    person approves each call, or a function of the arguments (as the model gave them) that says so. `repeat`:
    whether a call may run again when nobody knows how its first run ended. `timeout` in seconds, None for
    ever; `limit` in bytes of what is kept of a result. A sync function runs in a thread, which nothing stops:
    after a timeout it goes on in the background.

    Raises `CallerError` for a function that a model cannot be told: `*args`, a parameter without JSON Schema.
    """
    return partial(Function, **options) if function is None else Function(function, **options)


def checked_name(name: str) -> str:
    """Return the name, if every provider takes it as it is: the model calls the tool by that name."""
    if not name or function_name(name) != name:
        what = "letters, digits, _ and -, a letter or _ first, at most 64"
        raise CallerError(f"expected a tool's name of {what}, found {name!r:.100}; give another by name=")
    return name


def checked(
    name: str, repeat: RetrySafety, timeout: float | None, limit: int
) -> tuple[RetrySafety, float | None, int]:
    """Return a tool's settings unchanged if they are valid. Raises `CallerError`."""
    if repeat not in get_args(RetrySafety):
        raise CallerError(f"{name}: repeat: expected never, safe or keyed, found {repeat!r:.40}")
    if timeout is not None and not timeout > 0:
        raise CallerError(f"{name}: timeout: expected seconds above 0, or None, found {timeout!r:.40}")
    if limit < 1:
        raise CallerError(f"{name}: limit: expected at least 1 byte, found {limit!r:.40}")
    return repeat, timeout, limit


def _is_async(function: Callable[..., Any], name: str) -> bool:
    plain = inspect.isroutine(function) or isinstance(function, partial)
    called = function if plain else type(function).__call__
    if inspect.isasyncgenfunction(called):
        raise CallerError(f"{name}: expected a function that returns its result, found an async generator")
    return inspect.iscoroutinefunction(called)


LONGEST_WORD = 100
"""Characters that are shown of a value that does not fit."""
COMPLAINTS = 5
"""Places that are named where the arguments do not fit."""
COUNTED = 1_000
"""From so many on they are only counted: to name them takes seconds and gigabytes."""
_SCHEMAS_BY_NAME = ("properties", "$defs", "patternProperties", "dependentSchemas")
_DATA = ("default", "const", "enum", "examples")
_STRANGE = ("extra_forbidden", "unexpected_keyword_argument")
_Kind = inspect.Parameter


def json_object(text: str) -> dict[str, Any]:
    """Return the model's raw arguments as the object that they have to be. Raises `ToolError`."""
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


class _Schema(GenerateJsonSchema):
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic's own


class Parameters:
    """The parameters of a function.

    Those annotated `ToolContext` are filled with the call itself, and left out.

    `schema` is their JSON Schema, of type object. Raises `CallerError` for what a model cannot be told.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        parameters = _signature(function, name)
        self._name = name
        self._positional = [p.name for p in parameters if p.kind is _Kind.POSITIONAL_ONLY]
        self._calls = [p.name for p in parameters if p.annotation is ToolContext]
        self._taken = [p.name for p in parameters if p.annotation is not ToolContext]
        self._model = _model([p for p in parameters if p.annotation is not ToolContext], name)
        self.schema = _schema(self._model, name)
        self.takes_call = bool(self._calls)

    def read(self, call: ToolContext) -> Given:
        """Return the arguments of the function.

        Raises `ToolError`: what was expected, what was found, where.
        """
        try:
            read = self._model.model_validate_json(_utf8(call.arguments))
        except ValidationError as error:
            raise ToolError(f"{self._name}: {self._complaint(error, call.arguments)}") from None
        values = {name: getattr(read, f"p{nth}") for nth, name in enumerate(self._taken)}
        values |= dict.fromkeys(self._calls, call)
        return Given([values.pop(name) for name in self._positional], values)

    def _complaint(self, error: ValidationError, text: str) -> str:
        count = error.error_count()
        if count > COUNTED:
            return f"the arguments do not fit the schema in {count:,} places"
        errors = error.errors(include_url=False)
        first = errors[0]
        if first["type"] == "json_invalid":
            what = f"{first['ctx']['error']}, found {_found(text)}"
            return f"expected the arguments as a JSON object: {what}"
        lines = [self._line(found["type"], found) for found in errors[:COMPLAINTS]]
        more = [f"and {count - COMPLAINTS} more"] if count > COMPLAINTS else []
        return "\n".join(("the arguments do not fit", *lines, *more))

    def _line(self, kind: str, error: Any) -> str:
        place = "".join(f"/{step}" for step in error["loc"])[:LONGEST_WORD] or "the arguments"
        if kind == "missing":
            return f"{place}: expected a value, found none"
        if kind in _STRANGE and len(error["loc"]) == 1:
            return f"{place}: no such argument; there {_listed(self._taken)}"
        expected = "no such field" if kind in _STRANGE else error["msg"]
        expected = expected.replace("Input should be", "expected").replace("Value error, ", "")
        return f"{place}: {expected[: 3 * LONGEST_WORD]}, found {_found(error['input'])}"


def _utf8(text: str) -> bytes:
    """Return the arguments to parse; blank ones are an empty object, for some models leave them out."""
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
    """Return a model with one field for each parameter.

    Its fields are numbered: a parameter may have a name that a model's field may not.
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


def _schema(model: type[BaseModel], name: str) -> dict[str, Any]:
    try:
        schema: dict[str, Any] = _small(model.model_json_schema(schema_generator=_Schema))
    except PydanticUserError as error:
        raise _unfit(error, name) from None
    return {"type": "object", "properties": {}} | schema


def _unfit(error: Exception, name: str) -> CallerError:
    what = str(error).partition("\n")[0]
    return CallerError(f"{name}: expected parameters that have a JSON Schema, found others: {what}")


def _small(schema: Any) -> Any:
    """Return the schema without titles, which only repeat names, and without `"default": null`."""
    if isinstance(schema, list):
        return [_small(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _schemas_by_name(inner) if key in _SCHEMAS_BY_NAME else inner if key in _DATA else _small(inner)
        for key, inner in schema.items()
        if key != "title" and not (key == "default" and inner is None)
    }


def _schemas_by_name(schemas: dict[str, Any]) -> dict[str, Any]:
    return {name: _small(schema) for name, schema in schemas.items()}


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


ToolLike: TypeAlias = Callable[..., Any] | BaseTool | Toolset
"""The types that an agent's `tools` may contain."""


def as_runnables(tools: Iterable[ToolLike]) -> tuple[BaseTool | Toolset, ...]:
    """Return the tools in their order, plain functions made into tools.

    Raises `CallerError`: see `tool`, and where two have one name.
    """
    made = tuple(each if isinstance(each, BaseTool | Toolset) else _make_tool(each) for each in tools)
    by_name(each for each in made if isinstance(each, BaseTool))
    return made


async def opened(
    tools: Iterable[BaseTool | Toolset], failures: list[str] | None = None
) -> dict[str, BaseTool]:
    """Return all tools by name, those of toolboxes too, which are opened.

    Raises `CallerError` where two have one name, and `ToolError` where a toolbox cannot be opened: with
    `failures`, that is noted there instead.
    """
    found: list[BaseTool] = []
    for each in tools:
        try:
            found.extend(await each.open() if isinstance(each, Toolset) else [each])
        except ToolError as error:
            if failures is None:
                raise
            failures.append(str(error))
    return by_name(found)


def by_name(tools: Iterable[BaseTool]) -> dict[str, BaseTool]:
    """Return the tools by their names. Raises `CallerError` where two have one name."""
    named: dict[str, BaseTool] = {}
    for each in tools:
        name = each.spec.name
        if named.setdefault(name, each) is not each:
            raise CallerError(f"expected tools of different names, found two of the name {name!r}")
    return named


def _make_tool(function: object) -> BaseTool:
    if not callable(function):
        raise CallerError(f"expected a function, a tool or a toolbox, found {function!r:.100}")
    return tool(function)
