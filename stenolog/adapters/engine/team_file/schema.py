"""Schema of a team file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from stenolog.adapters.engine.options import OnUnknown
from stenolog.adapters.engine.output import TRIES
from stenolog.adapters.tools.base import LIMIT, TIMEOUT, RetrySafety
from stenolog.domain.errors import CallerError

T = TypeVar("T", bound=BaseModel)


def _use(given: object) -> object:
    return {"use": given} if isinstance(given, str) else given


class Table(BaseModel):
    """Table of the file; an unknown key is an error."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class UseTable(Table):
    """Value by its name, with options: `{ use = "…", … }`, or only the name."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    use: str

    @property
    def options(self) -> dict[str, Any]:
        """All but the name."""
        return dict(self.__pydantic_extra__ or {})


def _uses(given: object) -> object:
    return given if isinstance(given, list) else [given]


Use = Annotated[UseTable, BeforeValidator(_use)]
Uses = Annotated[list[Use], BeforeValidator(_uses), Field(min_length=1)]
"""One, or several in the order in which they are tried."""
Seconds = Annotated[float, Field(ge=0, strict=False)]
"""0: for ever."""


class TimeoutsTable(Table):
    """Time limits of a model in seconds; 0: none. Omitted ones are the model's own."""

    connect: Seconds | None = None
    first_token: Seconds | None = None
    idle: Seconds | None = None
    total: Seconds | None = None

    @property
    def options(self) -> dict[str, float | None]:
        """The limits that were given, with None for ever."""
        return {name: getattr(self, name) or None for name in self.model_fields_set}


class SummaryTable(Table):
    """Options of `AutoSummary`; without `by`, the agent summarises itself."""

    by: str = ""
    over: Annotated[int, Field(ge=1)] | None = None
    keep: Annotated[int, Field(ge=1)] | None = None
    task: str = ""


class MemoryTable(Table):
    """Options of `AutoMemory`."""

    by: str
    every: Annotated[int, Field(ge=1)] = 10
    task: str = ""


class ScoreTable(Table):
    """Options of `AutoScore`."""

    by: str
    task: str = ""


class RecallTable(Table):
    """Conversations that an agent may recall: by name, and by a `rule`, `module:function`."""

    conversations: list[str] = []
    rule: str = ""
    limit: Annotated[int, Field(ge=1)] = 3


class HandoffTable(Table):
    """Agent that may be handed to: its name, or a table of options of `Handoff`."""

    agent: str
    description: str = ""
    payload: str = ""
    """A pydantic model, `module:Name`."""
    filter: Any = None
    name: str = ""
    approval: bool = False


def _agent(given: object) -> object:
    return {"agent": given} if isinstance(given, str) else given


def _names(given: object) -> object:
    return {"conversations": given} if isinstance(given, list) else given


def _by(given: object) -> object:
    return {"by": given} if isinstance(given, str) else given


class OutputTable(Table):
    """Type of the answers: a class or a function, `module:name`."""

    use: str
    tries: Annotated[int, Field(ge=1)] = TRIES
    tool: bool | None = None
    name: str = ""


def _output(given: object) -> object:
    """Return a table with `use` as one of options, and leave a JSON Schema as it is."""
    used = _use(given)
    return OutputTable.model_validate(used) if isinstance(used, dict) and "use" in used else used


class AgentTable(Table):
    """An agent."""

    model: Uses | None = None
    persona: str = ""
    persona_file: str = ""
    tools: list[Use] = []
    mcp: list[str] = []
    parameters: dict[str, Any] = {}
    policy: Any = None
    limits: dict[str, Any] = {}
    retries: dict[str, Any] = {}
    timeouts: TimeoutsTable = TimeoutsTable()
    summary: Annotated[SummaryTable | None, BeforeValidator(_by)] = None
    memory: Annotated[MemoryTable | None, BeforeValidator(_by)] = None
    recall: Annotated[RecallTable | None, BeforeValidator(_names)] = None
    score: Annotated[ScoreTable | None, BeforeValidator(_by)] = None
    handoffs: list[Annotated[HandoffTable, BeforeValidator(_agent)]] = []
    output: Annotated[OutputTable | dict[str, Any] | None, BeforeValidator(_output)] = None
    checks: list[str] = []


class BreakerTable(Table):
    """Options of a circuit breaker."""

    failures: Annotated[int, Field(ge=1)] = 5
    recovery_time: Seconds = 30.0


class ServerTable(Table):
    """MCP server: a `command` to start or the `url` of one that runs; the rest as in `MCPServer`."""

    command: list[str] = []
    url: str = ""
    env: dict[str, str] = {}
    headers: dict[str, str] = {}
    cwd: str | None = None
    prefix: str = ""
    tools: list[str] | None = None
    approval: bool | list[str] = False
    ends_run: list[str] = []
    repeat: RetrySafety = "never"
    timeout: Seconds = TIMEOUT
    limit: Annotated[int, Field(ge=1)] = LIMIT
    trust_hints: bool = False
    connect: Annotated[float, Field(gt=0, strict=False)] = 30.0


class TeamFileSchema(Table):
    """The whole file."""

    title: str = ""
    conversation: str = ""
    mode: str = "agent"
    turns: dict[str, Any] = {}
    on_unknown: OnUnknown = "tell"
    parallel: Annotated[int, Field(ge=1)] = 16
    mentions: bool | None = None
    exclusive: bool = False
    prices: dict[str, Any] = {}
    breaker: BreakerTable = BreakerTable()
    mcp: dict[str, ServerTable] = {}
    agents: Annotated[dict[str, AgentTable], Field(min_length=1)]
    helpers: dict[str, AgentTable] = {}
    """Agents that take no turns: they write summaries and memories."""
    summary: Annotated[SummaryTable | None, BeforeValidator(_by)] = None


def checked(data: Mapping[str, Any], file: object) -> TeamFileSchema:
    """Return the tables of a file.

    Raises `CallerError` with each wrong key, what was expected and found.
    """
    try:
        return TeamFileSchema.model_validate(data)
    except ValidationError as error:
        raise CallerError("\n".join(f"{file}: {complaint}" for complaint in _complaints(error))) from None


def _complaints(error: ValidationError) -> Iterator[str]:
    for fault in error.errors(include_url=False):
        where = ".".join(map(str, fault["loc"]))
        match fault["type"]:
            case "extra_forbidden":
                known = ", ".join(_table(fault["loc"]).model_fields)
                yield f"{where}: no such key; expected one of {known}"
            case "missing":
                yield f"{where}: expected it, found nothing"
            case _:
                yield f"{where}: {plain(fault['msg'])}, found {fault['input']!r:.60}"


def plain(words: str) -> str:
    """Return the validator's complaint in the words of a team file."""
    words = re.sub(r"a valid dictionary( or instance of \w+)?", "a table", words)
    return words.replace("Input should be", "expected").replace("Dictionary should", "expected it to")


def _table(loc: tuple[int | str, ...]) -> type[BaseModel]:
    match loc:
        case ("agents" | "helpers", _, "timeouts", *_):
            return TimeoutsTable
        case ("agents" | "helpers", _, "summary", *_):
            return SummaryTable
        case ("summary", *_):
            return SummaryTable
        case ("agents" | "helpers", _, "memory", *_):
            return MemoryTable
        case ("agents" | "helpers", _, "score", *_):
            return ScoreTable
        case ("agents" | "helpers", _, "recall", *_):
            return RecallTable
        case ("agents" | "helpers", _, "handoffs", *_):
            return HandoffTable
        case ("agents" | "helpers", _, *_):
            return AgentTable
        case ("mcp", _, *_):
            return ServerTable
        case ("breaker", *_):
            return BreakerTable
        case _:
            return TeamFileSchema
