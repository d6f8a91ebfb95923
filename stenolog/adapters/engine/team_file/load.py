"""Loading of a team file, with objects of a program and environment variables."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import fields, replace
from functools import partial, reduce
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from stenolog.adapters.agents.command_line import HealthCheck
from stenolog.adapters.engine.agent import Agent
from stenolog.adapters.engine.checks import StageCheck, checked_list
from stenolog.adapters.engine.handoff import Handoff
from stenolog.adapters.engine.model_calls.retries import ATTEMPTS, CircuitBreaker, RetryPolicy
from stenolog.adapters.engine.output import Output
from stenolog.adapters.engine.team.team import Team
from stenolog.adapters.engine.upkeep.auto_context import REMEMBER, AutoMemory, AutoSummary
from stenolog.adapters.engine.upkeep.auto_recall import AutoRecall
from stenolog.adapters.engine.upkeep.auto_score import JUDGE, AutoScore
from stenolog.adapters.engine.upkeep.compaction import TASK
from stenolog.adapters.models.base import Model
from stenolog.adapters.models.model_names import model_from_string
from stenolog.adapters.providers.prices import listed
from stenolog.adapters.tools.base import BaseTool, Toolset
from stenolog.adapters.tools.functions import ToolLike, as_runnables, tool
from stenolog.adapters.tools.functions import checked as checked_function
from stenolog.adapters.tools.mcp import MCPServer
from stenolog.domain.errors import CallerError
from stenolog.domain.events import ErrorCategory
from stenolog.domain.lanes.limits import Limits
from stenolog.domain.lanes.turns import TURN_RULES, TurnRule
from stenolog.domain.lanes.turns import load as rule
from stenolog.domain.policy import Policy, policy
from stenolog.domain.policy_text import policy_of
from stenolog.domain.values import TurnPolicy
from stenolog.projections.prices import price_table

from . import schema

T = TypeVar("T")
RETRIES: TypeAdapter[RetryPolicy] = TypeAdapter(RetryPolicy)
HEALTH: TypeAdapter[HealthCheck] = TypeAdapter(HealthCheck)


class TeamFile(NamedTuple):
    """Contents of a team file: team, default conversation, title."""

    team: Team
    conversation: str
    title: str


def load(path: Path, *, keys: bool = True, summary: AutoSummary | None = None) -> TeamFile:
    """Return the team of a file. `keys` false: its models need no keys, since nobody calls them.

    `summary` replaces the file's own for agents without one.

    Raises `CallerError` with the wrong key, what was expected and found; `OSError`.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CallerError(f"{path}: expected TOML: {error}") from None
    file = schema.checked(data, path)
    reading = TeamFileReader(path, file, keys)
    shared = summary or reading.value("summary", reading.summary, file.summary)
    team = Team(
        [reading.agent(name, agent) for name, agent in file.agents.items()],
        turns=reading.turns(),
        mode=file.mode,
        on_unknown=file.on_unknown,
        parallel=file.parallel,
        mentions=file.mentions,
        exclusive=file.exclusive,
        breaker=partial(CircuitBreaker, file.breaker.failures, file.breaker.recovery_time),
        prices=(*price_table(file.prices, f"{path}: prices"), *listed()),
        summary=shared,
    )
    return TeamFile(team, file.conversation or path.stem, file.title)


class TeamFileReader:
    """Reader that turns tables into values."""

    def __init__(self, path: Path, file: schema.TeamFileSchema, keys: bool) -> None:
        self.path = path
        self.folder = path.resolve().parent
        self.file = file
        self.keys = keys
        self._servers: dict[str, MCPServer] = {}
        self._models: dict[str, Model] = {}

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Add the file and this place to errors raised within."""
        try:
            yield
        except CallerError as error:
            raise CallerError(f"{self.path}: {place}: {schema.plain(str(error))}") from None
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            key = ".".join(map(str, fault["loc"]))
            words = f"{schema.plain(fault['msg'])}, found {fault['input']!r:.60}"
            raise CallerError(f"{self.path}: {place}.{key}: {words}") from None
        except OSError as error:
            raise CallerError(f"{self.path}: {place}: {error.strerror or error}: {error.filename}") from None

    def agent(self, name: str, given: schema.AgentTable, table: str = "agents") -> Agent:
        """Return an agent."""
        make = partial(self._value, f"{table}.{name}")
        summary = make("summary", self.summary, given.summary)
        memory = make("memory", self._memory, given.memory)
        make("policy", _check_kept, given, summary or self.file.summary, memory)
        make("summary", _check_cut, given)
        return Agent(
            name,
            llm=make("model", self._models_of, given) if given.model else None,
            persona=make("persona_file", self._persona, given),
            tools=[*make("tools", self._tools, given), *make("mcp", self._boxes, given)],
            parameters=given.parameters,
            policy=make("policy", _policy, given.policy),
            limits=make("limits", lambda: Limits(**given.limits)),
            retries=make("retries", _retries, given.retries),
            summary=summary,
            memory=memory,
            recall=make("recall", self._recall, given.recall),
            score=make("score", self._score, given.score),
            handoffs=make("handoffs", self._handoffs, name, given),
            output=make("output", self._output, given.output),
            checks=make("checks", self._checks, given.checks),
        )

    def turns(self) -> TurnRule | None:
        """Return the rule by which they take turns."""
        if not self.file.turns:
            return None
        options = {key: value for key, value in self.file.turns.items() if key != "rule"}
        with self.at("turns"):
            name = str(self.file.turns.get("rule", ""))
            shipped = name.replace("-", "_")  # a file may write round-robin
            return rule(TurnPolicy(rule=shipped if shipped in TURN_RULES else name, options=options))

    def _value(self, table: str, key: str, make: Callable[..., T], *given: Any) -> T:
        return self.value(f"{table}.{key}", make, *given)

    def value(self, place: str, make: Callable[..., T], *given: Any) -> T:
        """Make a value; an error names its place in the file."""
        with self.at(place):
            return make(*given)

    def _models_of(self, given: schema.AgentTable) -> list[Model]:
        return [self._model(use, given) for use in given.model or ()]

    def _model(self, use: schema.UseTable, given: schema.AgentTable) -> Model:
        """Return an agent's model; equal ones are shared, unless they are scripts."""
        timeouts = given.timeouts.options
        key = repr((use, sorted(timeouts.items())))
        if key not in self._models or use.use.startswith("scripted:"):
            options = use.options
            if "env" in options:
                options["env"] = filled(options["env"], keys=self.keys)
            if timeouts:
                options["timeouts"] = timeouts
            if "health" in options:
                options["health"] = _health(options["health"])
            self._models[key] = model_from_string(use.use, folder=self.folder, keys=self.keys, **options)
        return self._models[key]

    def summary(self, given: schema.SummaryTable | None) -> AutoSummary | None:
        """Return what makes summaries."""
        if given is None:
            return None
        by = self._helper(given.by) if given.by else None
        return AutoSummary(by, given.over, given.keep, given.task or TASK)

    def _memory(self, given: schema.MemoryTable | None) -> AutoMemory | None:
        if given is None:
            return None
        return AutoMemory(self._helper(given.by), given.every, given.task or REMEMBER)

    def _score(self, given: schema.ScoreTable | None) -> AutoScore | None:
        return AutoScore(self._helper(given.by), given.task or JUDGE) if given else None

    def _recall(self, given: schema.RecallTable | None) -> AutoRecall | None:
        if given is None:
            return None
        rules = [load_object(given.rule, self.folder)] if given.rule else []
        return AutoRecall(*given.conversations, *rules, limit=given.limit)

    def _helper(self, name: str) -> Agent | str:
        if name in self.file.helpers:
            return self.agent(name, self.file.helpers[name], "helpers")
        if name not in self.file.agents:
            known = ", ".join([*self.file.helpers, *self.file.agents])
            raise CallerError(f"by: expected a helper or an agent of this file ({known}), found {name!r}")
        return name

    def _persona(self, given: schema.AgentTable) -> str:
        if not given.persona_file:
            return given.persona
        if given.persona:
            raise CallerError("expected persona or persona_file, found both")
        return (self.folder / given.persona_file).read_text(encoding="utf-8").strip()

    def _tools(self, given: schema.AgentTable) -> Sequence[ToolLike]:
        return as_runnables(one for use in given.tools for one in tools_of(use.use, self.folder, use.options))

    def _boxes(self, given: schema.AgentTable) -> list[MCPServer]:
        return [self._server(name) for name in given.mcp]

    def _output(self, given: schema.OutputTable | dict[str, Any] | None) -> Output | None:
        if not isinstance(given, schema.OutputTable):
            return Output(given) if given else None
        return Output(load_object(given.use, self.folder), given.tries, given.tool, given.name)

    def _checks(self, given: Sequence[str]) -> tuple[StageCheck, ...]:
        return checked_list([load_object(each, self.folder) for each in given])

    def _handoffs(self, name: str, given: schema.AgentTable) -> list[Handoff]:
        known = [agent for agent in self.file.agents if agent != name]
        for each in given.handoffs:
            if each.agent not in known:
                others = ", ".join(known) or "there is none"
                raise CallerError(f"expected another agent of this file ({others}), found {each.agent!r}")
        return [self._handoff(each) for each in given.handoffs]

    def _handoff(self, given: schema.HandoffTable) -> Handoff:
        payload = load_object(given.payload, self.folder) if given.payload else None
        filtered = _policy(given.filter)
        return Handoff(given.agent, given.description, payload, filtered, given.name, given.approval)

    def _server(self, name: str) -> MCPServer:
        if name not in self.file.mcp:
            known = ", ".join(self.file.mcp) or "none is described"
            raise CallerError(f"expected an MCP server ({known}), found {name!r}")
        if name not in self._servers:
            with self.at(f"mcp.{name}"):
                self._servers[name] = _server(self.file.mcp[name], self.folder, self.keys)
        return self._servers[name]


def _server(given: schema.ServerTable, folder: Path, keys: bool) -> MCPServer:
    if bool(given.command) == bool(given.url):
        raise CallerError(f"expected command or url, found {'both' if given.url else 'neither'}")
    own = {"command", "url", "env", "headers", "cwd"}
    options: Any = {name: getattr(given, name) for name in given.model_fields_set - own}
    if not options.get("timeout", True):
        options["timeout"] = None
    if given.url:
        return MCPServer.http(given.url, headers=filled(given.headers, keys=keys), **options)
    cwd = folder / given.cwd if given.cwd else folder
    return MCPServer.stdio(given.command, env=filled(given.env, keys=keys), cwd=cwd, **options)


def _policy(given: Any) -> Policy | None:
    return policy_of(given, "") if isinstance(given, str) else policy(given) if given else None


def _check_kept(given: schema.AgentTable, summary: object, memory: object) -> None:
    """Raise `CallerError` for a policy that shows summaries or memories which nobody makes."""
    chosen = _policy(given.policy)
    # What a new session is told may be the last messages alone.
    keeps = chosen.history.keeps if chosen and not chosen.history.delta else ()
    if "summary" in keeps and not summary:
        raise CallerError(
            'it shows summaries, but none is ever made: add summary = { by = "…" }, or choose last:N'
        )
    if "memory" in keeps and not (memory or given.recall or any(use.use == REMEMBERS for use in given.tools)):
        raise CallerError(
            f"it shows memories, but none is ever kept: "
            f'add memory = {{ by = "…" }}, or tools = ["{REMEMBERS}"]'
        )


def _check_cut(given: schema.AgentTable) -> None:
    """Raise `CallerError` for a summary that is never due, since the policy cuts nothing."""
    chosen = _policy(given.policy)
    cuts = chosen is not None and (chosen.budget is not None or chosen.history.window[0] is not None)
    if given.summary is not None and given.summary.over is None and not cuts:
        raise CallerError(
            "its policy cuts nothing, so none would be made: add over = 12_000, or a policy such as "
            '"summary:20", "tokens:32k" or, for a program that remembers, "delta:20"'
        )


def _health(given: Any) -> HealthCheck:
    if isinstance(given, dict) and (strange := sorted(given.keys() - {"ping", "after", "timeout", "every"})):
        raise CallerError(f"health: expected ping, after, timeout or every; found {strange[0]!r}")
    return HEALTH.validate_python(given)


def _retries(given: Mapping[str, Any]) -> RetryPolicy:
    attempts = given.get("attempts", {})
    if isinstance(attempts, dict) and (strange := sorted(attempts.keys() - ATTEMPTS.keys())):
        raise CallerError(f"attempts: expected of {', '.join(ATTEMPTS)}; found {strange[0]!r}")
    known = [each.name for each in fields(RetryPolicy)]
    if strange := sorted(given.keys() - {*known}):
        raise CallerError(f"expected one of {', '.join(known)}; found {strange[0]!r}")
    after, kinds = given.get("falls_back", ()), get_args(ErrorCategory)
    if isinstance(after, list) and (strange := sorted({*map(str, after)} - {*kinds})):
        raise CallerError(f"falls_back: expected of {', '.join(kinds)}; found {strange[0]!r}")
    merged = {**ATTEMPTS, **attempts} if isinstance(attempts, dict) else attempts
    return RETRIES.validate_python({**given, "attempts": merged})


REMEMBERS = "stenolog.tools:remember"
VARIABLE = re.compile(r"\$\{(\w+)\}")


def tools_of(written: str, folder: Path, options: dict[str, Any]) -> list[ToolLike]:
    """Return the tools that `module:name` names, one or a list. Modules are found from `folder` too.

    `options` are those of `tool`. Raises `CallerError`.
    """
    found = load_object(written, folder)
    each = list(found) if isinstance(found, list | tuple) else [found]
    return [_with(one, options, written) for one in each]


def load_object(written: str, folder: Path) -> Any:
    """Import and return the object `module:name`.

    Raises `CallerError` if it is missing or the import raises.
    """
    module, colon, path = written.partition(":")
    if not (module and colon and path):
        raise CallerError(f"expected module:function, found {written!r:.100}")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return reduce(getattr, path.split("."), import_module(module))
    except Exception as error:
        raise CallerError(f"{written}: {type(error).__name__}: {error}") from error


def _with(one: Any, options: dict[str, Any], written: str) -> ToolLike:
    if not options:
        return one  # type: ignore[no-any-return]
    if isinstance(one, Toolset):
        raise CallerError(f"{written}: expected a single tool for {', '.join(options)}, found a toolbox")
    try:
        return _changed(one, **options) if isinstance(one, BaseTool) else tool(one, **options)
    except TypeError as error:
        known = "name, description, approval, ends_run, repeat, timeout, limit"
        raise CallerError(f"{written}: expected options of {known}: {error}") from None


def _changed(one: BaseTool, **options: Any) -> BaseTool:
    """Return a copy of a tool that is made already."""
    changed = copy(one)
    of_spec = ("name", "description", "approval", "ends_run")
    spec = {name: options.pop(name) for name in of_spec if name in options}
    changed.spec = replace(one.spec, **spec)
    if "approval" in spec:
        changed.approves = None
    given = {"repeat": one.repeat, "timeout": one.timeout, "limit": one.limit} | options
    repeat, changed.timeout, changed.limit = checked_function(changed.spec.name, **given)
    if "repeat" in options:
        changed.repeat = repeat
    return changed


def filled(texts: Mapping[str, str], *, keys: bool = True) -> dict[str, str]:
    """Return the texts with each `${NAME}` replaced by that variable, if `keys`.

    Raises `CallerError` if it is not set.
    """
    return {name: VARIABLE.sub(_value, text) if keys else text for name, text in texts.items()}


def _value(found: re.Match[str]) -> str:
    value = os.environ.get(found[1])
    if value is None:
        raise CallerError(f"expected the environment variable {found[1]}, found none")
    return value
