"""One ACP agent at work: its process, its messages, its permissions, and its answer."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, schema, text_block
from pydantic import BaseModel, ValidationError

from stenolog._version import __version__
from stenolog.adapters.models.base import StreamItem
from stenolog.adapters.providers.failures import error_category
from stenolog.domain.errors import CallerError, ModelError
from stenolog.domain.values import Usage

from .answer_buffer import PermissionRequest, Permit, ResponseBuilder
from .long_lived import AgentSession, SessionPlace
from .output_parser import LIMIT, JsonRows, parsed
from .process import LINGER, Process

AUTH_REQUIRED, INTERNAL_ERROR = -32000, -32603


def servers(given: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the MCP servers as the protocol's library has them. Raises `CallerError`."""
    found: list[Any] = []
    for number, server in enumerate(given):
        one = {"cwd": "/", "mcpServers": [server]}
        found += schema.NewSessionRequest.model_validate(one).mcp_servers  # which leaves out a bad one
        if len(found) == number:
            known = "name, command, args and env, or type, name, url and headers"
            raise CallerError(f"mcp_servers/{number}: expected {known}, found {', '.join(server)}")
    return found


class Session(AgentSession):
    """Session with an agent in its own process. Await `open` first."""

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
        """Connect to the agent, and resume the session if it can; else begin a new one.

        Raises `ModelError`.
        """
        try:
            greeted = await self._agent.initialize(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=schema.ClientCapabilities(),
                client_info=schema.Implementation(name="stenolog", version=__version__),
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
        self, greeted: schema.InitializeResponse, cwd: str, servers: list[Any], session: str
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

    def _end(self, turn: ResponseBuilder, response: schema.PromptResponse) -> None:
        """End the turn by the agent's last message. After a refusal the session forgets the turn."""
        if response.stop_reason == "refusal":
            turn.fail("the agent refused to go on", "refused")
        if response.stop_reason == "cancelled":
            turn.fail("the agent cancelled its turn", "cancelled")
        turn.finish_reason = response.stop_reason
        turn.finish()

    async def _hush(self, call: asyncio.Future[schema.PromptResponse]) -> None:
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
        """Raise the failure in its category."""
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


def _counted(told: schema.Usage | None, turn: ResponseBuilder) -> Usage | None:
    """Return the tokens of one turn, with its cost.

    The schema means the whole session; claude-agent-acp and opencode, which alone send usage, send the
    turn's. They count each token once; ours count the cache in the input, thoughts in the output.
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


ANSWERS = {True: ("allow_once", "allow_always"), False: ("reject_once", "reject_always")}


class Client:
    """Receiver of what the agent says and does, for the turn under way.

    What comes outside a turn is dropped, such as the history of a resumed session. `news` is set when
    something has come.
    """

    def __init__(self, place: SessionPlace, permit: Permit | None) -> None:
        self.turn: ResponseBuilder | None = None
        self.news = asyncio.Event()
        self._place = place
        self._permit = permit
        self._message: str | None = None
        self._calls: dict[str, dict[str, Any]] = {}
        self._asking: set[asyncio.Future[bool]] = set()

    def begin(self, session: str) -> ResponseBuilder:
        """Listen to a turn."""
        self._message, self._calls = None, {}
        self.turn = ResponseBuilder("acp", session, resumes=True)
        return self.turn

    def withdraw(self) -> None:
        """Withdraw the open permission requests."""
        for asking in self._asking:
            asking.cancel()

    # What the protocol's library calls

    async def session_update(self, session_id: str, update: object, **_: Any) -> None:
        """Pass on an update that the agent sends."""
        if self.turn is not None and session_id == self.turn.session:
            self._tell(self.turn, update)
            self.turn.alive = True
            self.news.set()

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        """Return the decision about a permission, as one of the agent's options."""
        call = self._call_details(tool_call)
        allowed = await self._decision(call)
        call["permission"] = {True: "allowed", False: "refused", None: "withdrawn"}[allowed]
        if self.turn is not None:
            self.turn.add_note(call, tool_call.tool_call_id)
            self.news.set()
        for kind in () if allowed is None else ANSWERS[allowed]:
            for option in options:
                if option.kind == kind:
                    chosen = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
                    return schema.RequestPermissionResponse(outcome=chosen)
        return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))

    def _tell(self, turn: ResponseBuilder, update: object) -> None:
        match update:
            case schema.AgentMessageChunk() | schema.AgentThoughtChunk():
                if update.message_id != self._message:
                    turn.break_part()
                self._message = update.message_id
                self._chunk(turn, update)
            case schema.ToolCallStart() | schema.ToolCallProgress():
                turn.add_note(self._call_details(update), update.tool_call_id)
            case schema.UsageUpdate(cost=schema.Cost(amount=amount, currency="USD")):
                turn.costs(amount)
            case _:
                pass  # plans, modes, commands: for a screen of the agent's own

    def _chunk(self, turn: ResponseBuilder, chunk: schema.ContentChunk) -> None:
        if not isinstance(chunk.content, schema.TextContentBlock):
            turn.add_note(_dumped(chunk.content))
        elif isinstance(chunk, schema.AgentThoughtChunk):
            turn.add_reasoning(chunk.content.text)
        else:
            turn.add_text(chunk.content.text)

    def _call_details(self, call: schema.ToolCallStart | schema.ToolCallUpdate) -> dict[str, Any]:
        """Return all that the agent has sent about a call."""
        known = self._calls.setdefault(call.tool_call_id, {})
        known |= _dumped(call)
        known.pop("sessionUpdate", None)
        return known

    async def _decision(self, call: dict[str, Any]) -> bool | None:
        """Return whether the agent may; None if the question was withdrawn."""
        asking = asyncio.ensure_future(self._ask_permission(call))
        self._asking.add(asking)
        try:
            await asyncio.wait([asking])
        finally:
            self._asking.discard(asking)
            asking.cancel()
        return None if asking.cancelled() else asking.exception() is None and asking.result()

    async def _ask_permission(self, call: dict[str, Any]) -> bool:
        if self._permit is None:
            return False
        title, kind = str(call.get("title", "")), str(call.get("kind", ""))
        arguments = json.dumps(call.get("rawInput"), ensure_ascii=False)
        said = self._permit(
            PermissionRequest(title, kind, arguments, self._place.lane, self._place.conversation)
        )
        return bool(await said if inspect.isawaitable(said) else said)


def _dumped(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Pipe:
    """Transport for the protocol's library. `fault` is the error that ended it, if the process did not."""

    def __init__(self, process: Process) -> None:
        self.fault: ModelError | None = None
        self._process = process
        self._rows = JsonRows()
        self._messages: deque[dict[str, Any]] = deque()

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises `ConnectionError` if the agent has gone."""
        if not self._process.alive:
            raise ConnectionError("the process has ended")
        self._process.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end."""
        while not self._messages and self.fault is None:
            if not (data := await self._process.read()):
                return None
            self._take(data)
        return self._messages.popleft() if self._messages else None

    async def close(self) -> None:
        """Do nothing: the process is ended by its starter."""

    def _take(self, data: bytes) -> None:
        try:
            self._messages.extend(
                found for row in self._rows.take(data) if (found := parsed(row)) is not None
            )
            if self._rows.held > LIMIT:
                raise ModelError("invalid_response", f"more than {LIMIT:,} bytes in one line")
        except ModelError as error:
            self.fault = error
