"""Models that are agents of the Agent Client Protocol, over stdin and stdout."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from stenolog.adapters.models.base import Model, ModelRequest, StreamItem, Timeouts
from stenolog.domain.errors import MissingExtraError, ModelError

from .answer_buffer import Permit
from .command import Command
from .command_line import PATIENT
from .long_lived import SessionPlace, SessionPool
from .process import launch

if TYPE_CHECKING:
    from .acp_session import Session


class ACP(Model):
    """Agent of the Agent Client Protocol, as editors use it.

    It has one process for each lane of a conversation, at most `most` at a time. A lost session is resumed if
    the agent can. The agent's own tool calls and plans are kept with its answer as opaque parts, and never
    run here. It gets no access to files or terminals through us.

    `permit` decides about permissions that the agent asks for; without it all are refused. `mcp_servers` are
    the servers that it connects to, in the protocol's form. `patience`: the seconds that a cancelled call may
    take to end before the process is ended. `timeouts.connect`: the seconds until its session is open. `env`
    and `cwd` are the process's; it inherits a list of variables and those in `inherit`. Errors show no value
    of `env`. `name`: the program's by default.
    """

    provider: ClassVar[str] = "acp"
    charges = "stated"  # where the agent sends its cost; else the first answer that it does not state ends it
    api = "plain"
    remembers = True

    def __init__(
        self,
        command: Sequence[str] | str,
        *,
        env: Mapping[str, str] | None = None,
        inherit: Sequence[str] = (),
        cwd: str | os.PathLike[str] | None = None,
        timeouts: Timeouts = PATIENT,
        permit: Permit | None = None,
        mcp_servers: Sequence[Mapping[str, Any]] = (),
        patience: float = 5.0,
        most: int = 100,
        name: str = "",
    ) -> None:
        try:
            from . import acp_session
        except ImportError:
            raise MissingExtraError("acp", "agent-client-protocol") from None
        self._sessions = acp_session
        self._mcp_servers = acp_session.servers(mcp_servers)
        self._command = Command.of(command, env, cwd, inherit)
        self._permit = permit
        self._patience = patience
        self._residents: SessionPool[Session] = SessionPool(self._begin, most, resumes=True)
        self.name = name or self._command.name
        self.timeouts = timeouts

    def __repr__(self) -> str:
        return f"ACP({self._command.name!r})"

    async def stream(self, prompt: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        place = SessionPlace(prompt.conversation, prompt.lane)
        try:
            async with aclosing(self._residents.ask(place, prompt.session, prompt.body["prompt"])) as pieces:
                async for piece in pieces:
                    yield piece
        except ModelError as error:
            raise ModelError(error.category, self._command.hide(error.message)) from None

    async def lost(self, lane: str, conversation: str, session: str) -> str:
        if not session:
            return ""
        await asyncio.sleep(0)  # so that the loop has noticed an end
        return self._command.hide(await self._residents.recover(SessionPlace(conversation, lane), session))

    def is_alive(self, lane: str, conversation: str) -> bool:
        """Return whether a process runs for that lane."""
        who = self._residents.at(SessionPlace(conversation, lane))
        return who is not None and who.alive

    async def close(self) -> None:
        await self._residents.close()

    async def _begin(self, place: SessionPlace, session: str) -> Session:
        process = await launch(self._command, self._command.args)
        agent = self._sessions.Session(process, place, self._permit, self._patience)
        try:
            async with asyncio.timeout(self.timeouts.connect):
                await agent.open(os.path.abspath(self._command.cwd or "."), self._mcp_servers, session)
        except TimeoutError:
            await agent.stop()
            limit = f"{self.timeouts.connect:g} s"
            raise ModelError("timeout", f"{self._command.name} opened no session within {limit}") from None
        except BaseException:
            await agent.stop()
            raise
        return agent
