"""MCP server as a toolbox: connected when first needed, and again after it died."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from urllib.parse import urlsplit

from stenolog.adapters.providers.failures import hide
from stenolog.adapters.tool_specs.signatures import json_object
from stenolog.adapters.tools import base
from stenolog.adapters.tools.functions import Approval, checked
from stenolog.adapters.tools.results import error_text
from stenolog.domain.errors import CallerError, InvalidEventError, MissingExtraError, ToolError
from stenolog.domain.values import Tool
from stenolog.projections.formats.gemini.write import function_name

from .contents import outcome_from
from .session import Connect, LastWords, Link, http, stdio

if TYPE_CHECKING:
    from mcp_types import Tool as TheirTool

KEY = "stenolog/idempotency-key"
"""The key of a call's `_meta` under which its idempotency key is sent."""
CONNECT = 30.0
"""Seconds that a server has to start, and to list its tools."""
CLOSED = -32000
"""The SDK's code for a call that will never be answered."""
LOST = ("Connection closed", "Session terminated")
"""Error messages of the SDK if the server is gone, or no longer knows the session."""


class Options(TypedDict, total=False):
    """Options of both kinds of connection to a server.

    `prefix`: the beginning of the tools' names. `tools`: the server's names of the tools to use, None for
    all. `approval`: for every tool, as in `tool`, or the names of those that a person has to approve.
    `ends_run`: the names of those after whose result the model is not called again.
    `repeat`, `timeout`, `limit`: as in `tool`, for every tool. `trust_hints`: whether a tool that the server
    calls read-only or idempotent may run again. `connect`: seconds until its tools are listed.
    """

    prefix: str
    tools: Collection[str] | None
    approval: Approval | Collection[str]
    ends_run: Collection[str]
    repeat: base.RetrySafety
    timeout: float | None
    limit: int
    trust_hints: bool
    connect: float


class MCPServer(base.Toolset):
    """Tools of an MCP server: `MCPServer.stdio(...)` or `MCPServer.http(...)`, which take `Options`.

    It belongs to the event loop that opened it, until it is closed. Characters that a provider's tool names
    do not allow are replaced.
    """

    def __init__(
        self,
        shown: str,
        connect: Connect,
        last_words: Callable[[], str],
        options: Options,
        secrets: Collection[str] = (),
    ) -> None:
        self._shown = shown
        self.secrets = secrets
        self._connect = connect
        self._last_words = last_words
        self._options: Options = {"timeout": base.TIMEOUT, "limit": base.LIMIT} | options
        checked(shown, options.get("repeat", "never"), self._options["timeout"], self._options["limit"])
        self._link: Link | None = None

    @classmethod
    def stdio(
        cls,
        command: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        **options: Unpack[Options],
    ) -> MCPServer:
        """Return a server that is a subprocess: a command line, or its words.

        It has PATH, HOME and some more variables, and those of `env`. Its stderr stays out of ours; if it
        cannot be opened, the error has the last lines.
        """
        command = shlex.split(command) if isinstance(command, str) else command
        if not command:
            raise CallerError("expected a command and its arguments, found none")
        parameters = _sdk().StdioServerParameters(
            command=command[0],
            args=list(command[1:]),
            env=dict(env or {}),
            cwd=os.fspath(cwd) if cwd is not None else None,
        )
        words = LastWords()
        name, connect = os.path.basename(command[0]), partial(stdio, parameters, words)
        return cls(name, connect, words, options, [*(env or {}).values()])

    @classmethod
    def http(
        cls, url: str, *, headers: Mapping[str, str] | None = None, **options: Unpack[Options]
    ) -> MCPServer:
        """Return a server over streamable HTTP; `headers` go with every request."""
        _sdk()
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CallerError(f"expected an http or https URL, found one of the scheme {parts.scheme!r:.20}")
        for name, value in (headers or {}).items():
            if not value.isprintable() or not value.isascii() or value != value.strip():
                raise CallerError(f"header {name}: expected printable ASCII without blanks around it")
        said: list[str] = []
        connect = partial(http, url, headers or {}, options.get("connect", CONNECT), said)
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        secrets = [*(headers or {}).values(), *filter(None, (parts.password, parts.query))]
        return cls(shown, connect, lambda: "".join(said), options, secrets)

    def __repr__(self) -> str:
        return f"<MCPServer {self._shown}>"

    async def open(self) -> Sequence[base.BaseTool]:
        """Connect, unless connected, and list the tools as they are now. Raises `ToolError`."""
        fresh = self._link is None or not self._link.usable
        link = self._linked()
        try:
            await link.client()
            tools = link.tools if fresh else await link.list()
            return [MCPTool(self, each, self._options) for each in self._chosen(tools)]
        except ToolError as error:
            raise self._failed(error) from None

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.end()
            await link.ended()

    async def call(self, name: str, call: base.ToolContext) -> base.ToolOutput:
        """Call a tool by the server's own name. Raises `ToolError`, with details."""
        arguments = json_object(call.arguments)
        link = self._linked()
        meta: Any = {KEY: call.key}
        try:
            client = await link.client()
            return outcome_from(await client.call_tool(name, arguments, meta=meta))
        except ToolError as error:
            raise self._failed(error) from None
        except _sdk().MCPError as error:
            if error.code != CLOSED and str(error) not in LOST:
                raise self._failed(f"it answered with an error: {error}") from None
            if str(error) in LOST:
                link.end()
            what = "the connection ended before it answered; the call may have had effects"
            raise self._failed(what) from None
        except Exception as error:  # what the SDK makes of an answer that breaks the protocol, or its schema
            what = f"its answer cannot be read, and the call may have had effects: {error_text(error)}"
            raise self._failed(what) from None

    def _linked(self) -> Link:
        if self._link is None or not self._link.usable:
            if self._link is not None:
                self._link.end()
            self._link = Link(self._connect, self._options.get("connect", CONNECT), self._last_words)
        return self._link

    def _chosen(self, tools: Sequence[TheirTool]) -> Sequence[TheirTool]:
        chosen = self._options.get("tools")
        if chosen is None:
            return tools
        names = [each.name for each in tools]
        missing = sorted(set(chosen) - set(names))
        if missing:
            raise ToolError(f"expected the tools {', '.join(missing)}, found {', '.join(names) or 'none'}")
        return [each for each in tools if each.name in chosen]

    def _failed(self, what: object) -> ToolError:
        return ToolError(f"MCP server {self._shown}: {hide(str(what), self.secrets)}")


class MCPTool(base.BaseTool):
    """Tool of an MCP server; it stays usable over a reconnection."""

    def __init__(self, server: MCPServer, theirs: TheirTool, options: Options) -> None:
        self._server = server
        self._name = theirs.name
        self.secrets = server.secrets
        approval = options.get("approval", False)
        if not isinstance(approval, bool) and not callable(approval):
            approval = theirs.name in approval
        try:
            self.spec = Tool(
                name=function_name(options.get("prefix", "") + theirs.name),
                description=theirs.description or theirs.title or "",
                parameters=theirs.input_schema,
                approval=bool(approval),
                ends_run=theirs.name in options.get("ends_run", ()),
            )
        except InvalidEventError as error:
            raise ToolError(f"its tool {theirs.name!r:.100}: {error}") from None
        self.approves = approval if callable(approval) else None
        if "repeat" in options:
            self.repeat = options["repeat"]
        self.timeout, self.limit = options["timeout"], options["limit"]
        if self.repeat == "never" and options.get("trust_hints", False) and _harmless(theirs):
            self.repeat = "safe"

    async def run(self, call: base.ToolContext) -> base.ToolOutput:
        return await self._server.call(self._name, call)


def _harmless(tool: TheirTool) -> bool:
    hints = tool.annotations
    return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


def _sdk() -> Any:
    try:
        import mcp
    except ImportError:
        raise MissingExtraError("mcp", "mcp") from None
    return mcp
