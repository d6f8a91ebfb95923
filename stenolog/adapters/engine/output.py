"""Typed output: answers that are values of a type, a JSON Schema, or a function's arguments.

A provider that takes a schema is sent it, and the answer is JSON. Else, and for a function, the answer is a
call of a tool that ends the run.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, wraps
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import to_jsonable_python

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.adapters.tool_specs.portable import is_strict, portable, unfenced
from stenolog.adapters.tool_specs.signatures import (
    SchemaWriter,
    checked_name,
    complaint,
    json_object,
    name_of,
    without_titles,
)
from stenolog.adapters.tools.base import BaseTool, RetrySafety, ToolContext, ToolOutput
from stenolog.adapters.tools.functions import Function
from stenolog.adapters.tools.results import LARGEST_META, outcome_of
from stenolog.domain.base.model import clean, deep_copy_json
from stenolog.domain.errors import CallerError, ToolError
from stenolog.domain.events import AssistantMessage, Event, LlmError, ToolResult, UserMessage
from stenolog.domain.lanes.effects import as_error
from stenolog.domain.lanes.state import PAUSED, address
from stenolog.domain.values import CallRef, Control, Tool
from stenolog.domain.verdict import OWN, Verdict, is_refused
from stenolog.projections.formats import format_of
from stenolog.projections.formats.base import Format
from stenolog.projections.json_checks import misfit

TRIES = 3
TOOL = "final_answer"
"""The name of the tool by which a value is given."""
DESCRIPTION = "Give the final answer, and end the work with it."
BY = "output"
"""The author of a verdict on an answer that is not of its type."""
LONGEST = 2_000
"""The number of characters of a reason that are kept."""
FIELDS = "the fields of the answer"
Shape: TypeAlias = type | Mapping[str, Any] | Callable[..., Any]
"""A class that pydantic understands, a JSON Schema, or a function that takes the answer's fields."""


@dataclass(frozen=True)
class Output:
    """Type of an agent's answers: a class, a JSON Schema of an object, or a function.

    An answer that does not fit is refused with the reason, and the model asked again: at most `tries` answers
    in all. `tool`: the answer is given as a call of a tool; None: only if the model's provider takes no
    schema. `name` is that of the schema or tool. A function's result is the output, as JSON; raise
    `ValueError` in it to have the model asked again.
    """

    shape: Shape
    tries: int = TRIES
    tool: bool | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise CallerError(f"output: tries: expected at least 1, found {self.tries!r}")
        if not isinstance(self.shape, type | Mapping) and not callable(self.shape):
            found = f"{self.shape!r:.80}"
            raise CallerError(f"output: expected a class, a JSON Schema or a function, found {found}")
        checked_name(self.called)
        if self.schema.get("type") != "object":
            found = json.dumps(self.schema)
            raise CallerError(
                f"output: expected the schema of an object, found {found:.100}; put it in a field"
            )

    @property
    def called(self) -> str:
        """The name of the schema, or of the tool."""
        if self.name:
            return self.name
        return TOOL if isinstance(self.shape, type | Mapping) else name_of(self._function)

    @property
    def is_function(self) -> bool:
        """True if a function makes the output of the answer's fields."""
        return not isinstance(self.shape, type | Mapping)

    @property
    def _function(self) -> Callable[..., Any]:
        return self.shape.function if isinstance(self.shape, Function) else self.shape  # type: ignore[return-value]

    def by_tool(self, api: str | Format, model: str, *, has_tools: bool) -> bool:
        """Return whether the answer is a call: of a function, or if the provider takes no schema."""
        if self.is_function or self.tool is not None:
            return self.is_function or bool(self.tool)
        return not format_of(api).takes_schema(model, has_tools)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the answer's fields."""
        if isinstance(self.shape, Mapping):
            return dict(deep_copy_json(dict(self.shape)))
        if self._adapter is None:
            return dict(self._tool.spec.parameters)
        try:
            written = self._adapter.json_schema(schema_generator=SchemaWriter)
        except PydanticUserError as error:
            what = str(error).partition("\n")[0]
            raise CallerError(f"output: expected a type with a JSON Schema: {what}") from None
        schema: dict[str, Any] = portable(without_titles(written))
        return schema

    @property
    def parameter(self) -> dict[str, Any]:
        """The value of the parameter `output` of a request."""
        strict = {"strict": True} if isinstance(self.shape, type) and is_strict(self.schema) else {}
        return {"name": self.called, "schema": self.schema, **strict}

    @cached_property
    def _adapter(self) -> TypeAdapter[Any] | None:
        if not isinstance(self.shape, type):
            return None
        try:
            return TypeAdapter(self.shape)
        except PydanticUserError as error:
            what = str(error).partition("\n")[0]
            raise CallerError(f"output: expected a type that pydantic understands: {what}") from None

    @cached_property
    def _tool(self) -> BaseTool:
        return _FunctionTool(self) if self.is_function else _ValueTool(self)

    def as_tool(self) -> BaseTool:
        """Return the tool by which the answer is given."""
        return self._tool

    def read(self, text: str) -> Any:
        """Return the value in an answer's text, or in a call's arguments. Raises `ToolError`."""
        text = unfenced(text)
        if self._adapter is None:
            return self._checked(text)
        try:
            return self._adapter.validate_json(text.encode(errors="replace"))
        except ValidationError as error:
            known = [*self.schema.get("properties", {})]
            raise ToolError(complaint(error, text, FIELDS, known)) from None

    def _checked(self, text: str) -> dict[str, Any]:
        try:
            given = json_object(text)
        except ToolError as error:
            raise ToolError(str(error).replace("the arguments", FIELDS)) from None
        if wrong := misfit(given, self.schema):
            raise ToolError(f"{FIELDS} do not fit\n{wrong}")
        return given

    def of_value(self, value: Any) -> Any:
        """Return a recorded value as the object that it was."""
        if self._adapter is not None:
            return self._adapter.validate_json(json.dumps(value))
        if not self.is_function:
            return value
        made = inspect.signature(self._function, eval_str=True).return_annotation
        if made in (inspect.Signature.empty, None):
            return value
        return TypeAdapter(made).validate_json(json.dumps(value))


def as_output(given: Output | Shape | None, parameters: Mapping[str, Any], agent: str) -> Output | None:
    """Return an agent's output as a value; by default that of its parameters. Raises `CallerError`."""
    try:
        if given is not None:
            return given if isinstance(given, Output) else Output(given)
        match parameters.get("output"):
            case {"name": str(), "schema": {"type": "object"} as schema}:
                return Output(schema, tool=False)
            case type():
                raise CallerError("parameters: give a class by output=, not as a parameter")
            case _:
                return None
    except CallerError as error:
        raise CallerError(f"agent {agent!r}: {error}") from None


class _ValueTool(BaseTool):
    """Tool that takes the answer's fields."""

    repeat: RetrySafety = "safe"

    def __init__(self, output: Output) -> None:
        self.output = output
        self.spec = Tool(name=output.called, description=DESCRIPTION, parameters=output.schema, ends_run=True)

    async def run(self, call: ToolContext) -> ToolOutput:
        self.output.read(call.arguments)
        return _recorded(json_object(call.arguments), "The answer was taken.")

    def following(self, result: ToolResult, call: ToolContext) -> Iterable[Event]:
        return stopped(self.output, result, call)


class _FunctionTool(Function):
    """Function that makes the output of the answer's fields."""

    def __init__(self, output: Output) -> None:
        shape = output.shape
        made = shape if isinstance(shape, Function) else None
        function = output._function
        super().__init__(
            _recording(function),
            name=output.called,
            description=(made.spec.description if made else inspect.getdoc(function)) or DESCRIPTION,
            approval=made.approves or made.spec.approval if made else False,
            repeat=made.repeat if made and "repeat" in vars(made) else None,
            timeout=made.timeout if made else 120.0,
        )
        self.spec = replace(self.spec, ends_run=True)
        self.output = output

    def following(self, result: ToolResult, call: ToolContext) -> Iterable[Event]:
        return stopped(self.output, result, call)


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose result says what its output is, too."""

    @wraps(function)
    async def awaited(*args: Any, **named: Any) -> ToolOutput:
        value = await function(*args, **named)
        return _recorded(to_jsonable_python(value), value)

    @wraps(function)
    def called(*args: Any, **named: Any) -> ToolOutput:
        value = function(*args, **named)
        return _recorded(to_jsonable_python(value), value)

    return awaited if inspect.iscoroutinefunction(function) else called


def _recorded(value: Any, shown: Any) -> ToolOutput:
    if len(json.dumps(value)) > LARGEST_META // 2:
        raise ToolError(f"expected an output of at most {LARGEST_META // 2:,} bytes of JSON")
    return outcome_of(shown)._replace(meta={OWN: {"output": value}})


def fault(output: Output, answer: AssistantMessage, *, by_tool: bool) -> str:
    """Return why an answer is not of its type, to tell the model; "" if it is, or calls tools first."""
    if answer.tool_calls or answer.finish_reason == PAUSED:
        return ""
    if by_tool:
        return f"expected a call of {output.called} with the answer, found a text"
    try:
        output.read(answer.text)
    except ToolError as error:
        return str(error)
    return ""


def refused(answer: AssistantMessage, by: str, reason: str, nth: int, tries: int, now: datetime) -> LlmError:
    """Return a refused answer, the `nth`, as it is recorded: the model is asked again, up to `tries`."""
    reason = clean(reason[:LONGEST])
    error = as_error(answer, "invalid_response", reason)
    again = now if nth < tries else None
    return replace(Verdict("refused", by, reason).on(error), attempt=nth, retry_at=again)


def stopped(output: Output, result: ToolResult, call: ToolContext) -> Iterator[LlmError]:
    """Yield the error that ends a lane after the last of its tries; nothing before."""
    if not result.is_error or call.conversation is None:
        return
    nth = refusals(call.conversation, call.lane, output.called) + 1
    if nth >= output.tries:
        agent, _, task = call.lane.partition("/")
        words = f"no answer of the type was given in {nth} tries: {result.text}"
        error = LlmError(
            agent=agent, task=task, category="invalid_response", message=words[:LONGEST], attempt=nth
        )
        yield Verdict("refused", BY, words[:LONGEST]).on(error)


def refusals(conversation: Conversation, lane: str, tool: str = "") -> int:
    """Return how many answers of a lane were refused, or calls of its `tool` failed, since it was asked."""
    found, failures = 0, Counter[str]()
    for entry in backwards(conversation, conversation.position):
        match entry.event:
            case UserMessage(author_kind="person" | "agent" | "schedule", control=None):
                break
            case UserMessage(control=Control(action="continue")):
                break
            case LlmError() as error if address(error.agent, error.task) == lane:
                found += is_refused(error)
            case ToolResult(call=CallRef(entry=caller), is_error=True) as result if tool == result.name:
                failures[caller] += 1
            case AssistantMessage(purpose="answer") as answer if address(answer.agent, answer.task) == lane:
                found += failures[entry.id]
                if not answer.tool_calls:
                    break
            case _:
                pass
    return found
