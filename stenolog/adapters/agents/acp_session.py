"""One agent of the Agent Client Protocol at work: a process, a connection, a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, text_block
from acp.schema import (
    ClientCapabilities,
    Implementation,
    InitializeResponse,
    NewSessionRequest,
    PromptResponse,
)
from acp.schema import Usage as Counted
from pydantic import ValidationError

from stenolog._version import __version__
from stenolog.adapters.llms.base import StreamItem
from stenolog.adapters.providers.error_category import error_category
from stenolog.domain.errors import CallerError, ModelError
from stenolog.domain.values import Usage

from .acp_client import Client
from .acp_pipe import Pipe
from .answer_buffer import ResponseBuilder
from .permission import Permit
from .process import LINGER, Process
from .session_pool import AgentSession, SessionPlace

AUTH_REQUIRED, INTERNAL_ERROR = -32000, -32603


def servers(given: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The MCP servers as the protocol's library has them. Raises `CallerError`."""
    found: list[Any] = []
    for number, server in enumerate(given):
        one = {"cwd": "/", "mcpServers": [server]}
        found += NewSessionRequest.model_validate(one).mcp_servers  # which leaves out a bad one
        if len(found) == number:
            known = "name, command, args and env, or type, name, url and headers"
            raise CallerError(f"mcp_servers/{number}: expected {known}, found {', '.join(server)}")
    return found


class Session(AgentSession):
    """A session with an agent in a process of its own. `open` must be awaited before it is asked anything."""

    def __init__(self, process: Process, place: SessionPlace, permit: Permit | None, patience: float) -> None:
        self.session = ""
        self._process = process
        self._pipe = Pipe(process)
        self._client = Client(place, permit)
        self._agent = connect_to_agent(self._client, self._pipe)  # type: ignore[arg-type]
        self._patience = patience
        self._spent = 0.0

    @property
    def alive(self) -> bool:
        return self._process.alive and self._pipe.fault is None

    @property
    def why(self) -> str:
        return self._pipe.fault.message if self._pipe.fault else self._process.end

    async def open(self, cwd: str, servers: list[Any], session: str) -> None:
        """Greet the agent, and take up the session where it can; else begin a new one.

        Raises `ModelError`.
        """
        try:
            greeted = await self._agent.initialize(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=ClientCapabilities(),
                client_info=Implementation(name="stenolog", version=__version__),
            )
            if greeted.protocol_version != PROTOCOL_VERSION:
                found = f"found version {greeted.protocol_version}"
                raise ModelError("other", f"expected version {PROTOCOL_VERSION} of the protocol, {found}")
            if session and await self._takes_up(greeted, cwd, servers, session):
                self.session = session
            else:
                self.session = (await self._agent.new_session(cwd=cwd, mcp_servers=servers)).session_id
        except (ConnectionError, RequestError, ValidationError) as error:
            await self._failed(error)

    async def ask(self, prompt: str) -> AsyncGenerator[StreamItem, None]:
        self.told = True
        turn = self._client.begin(self.session)
        turn.process, turn.spent = self._process.group, self._spent
        words: list[Any] = [text_block(prompt)]
        call = asyncio.ensure_future(self._agent.prompt(session_id=self.session, prompt=words))
        call.add_done_callback(lambda _: self._client.news.set())
        try:
            while not call.done():
                for piece in turn.pieces():
                    yield piece
                await self._client.news.wait()
                self._client.news.clear()
            for piece in turn.pieces():
                yield piece
            response = await call
            turn.usage = _counted(response.usage, turn)
            for piece in turn.pieces():
                yield piece
            self._end(turn, response)
        except (ConnectionError, RequestError, ValidationError) as error:
            await self._failed(error)
        finally:
            if not call.done():
                await self._hush(call)
            self._client.turn, self._spent = None, turn.spent
        yield turn.answer

    async def stop(self) -> None:
        self._client.withdraw()
        try:
            await self._process.stop(self._patience)
        finally:
            with suppress(RuntimeError):  # its event loop was closed over it
                await self._agent.close()

    async def _takes_up(
        self, greeted: InitializeResponse, cwd: str, servers: list[Any], session: str
    ) -> bool:
        """Return whether the agent resumed the session; a history that it replays is ignored."""
        can = greeted.agent_capabilities
        if can is None:
            return False
        try:
            if can.session_capabilities and can.session_capabilities.resume is not None:
                await self._agent.resume_session(cwd=cwd, session_id=session, mcp_servers=servers)
            elif can.load_session:
                await self._agent.load_session(cwd=cwd, session_id=session, mcp_servers=servers)
            else:
                return False
        except RequestError:
            return False
        return True

    def _end(self, turn: ResponseBuilder, response: PromptResponse) -> None:
        """The turn as the agent's last word has it. What it refuses, it forgets."""
        if response.stop_reason == "refusal":
            turn.fail("the agent refused to go on", "refused")
        if response.stop_reason == "cancelled":
            turn.fail("the agent cancelled its turn", "cancelled")
        turn.finish_reason = response.stop_reason
        turn.finish()

    async def _hush(self, call: asyncio.Future[PromptResponse]) -> None:
        """Have the agent end its turn, or end it."""
        self._client.withdraw()
        try:
            if self.alive:
                with suppress(ConnectionError):  # it has just ended
                    await self._agent.cancel(session_id=self.session)
                await asyncio.wait([call], timeout=self._patience)
            if not call.done():
                await self._process.stop(self._patience, politely=False)
        except BaseException:
            self._process.kill()
            raise
        finally:
            call.cancel()
            call.add_done_callback(lambda call: call.cancelled() or call.exception())

    async def _failed(self, error: ConnectionError | RequestError | ValidationError) -> NoReturn:
        """The failure in its category."""
        if isinstance(error, RequestError):
            words = f"{error}: {error.data}" if error.data else str(error)
            if error.code == INTERNAL_ERROR and (last := self._process.last_words):
                words = f"{words} ({last})"
            raise ModelError(
                "unauthorized" if error.code == AUTH_REQUIRED else error_category(words), words
            ) from None
        if isinstance(error, ValidationError):
            raise ModelError("invalid_response", f"the agent's answer: {error.errors()[0]['msg']}") from None
        if self._pipe.fault:
            raise self._pipe.fault
        await self._process.ends(LINGER)
        raise ModelError("process_exited", self._process.end) from None


def _counted(told: Counted | None, turn: ResponseBuilder) -> Usage | None:
    """Return the tokens of one turn, with its cost.

    The schema speaks of the whole session; claude-agent-acp and opencode, which alone tell usage, tell the
    turn's. They count each token as of one sort; ours count the cache in the input, thoughts in the output.
    """
    if told is None:
        return turn.usage
    read, write = told.cached_read_tokens or 0, told.cached_write_tokens or 0
    thought = told.thought_tokens or 0
    return Usage(
        input=told.input_tokens + read + write,
        output=told.output_tokens + thought,
        cache_read=read,
        cache_write=write,
        reasoning=thought,
        cost=turn.usage.cost if turn.usage else None,
    )
