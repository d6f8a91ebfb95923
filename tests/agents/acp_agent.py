"""A small agent of the Agent Client Protocol, made with its own library.

It answers with all it was told in its session, or does what the last word of the prompt says. The sessions
are files in the folder `STORE`, where there is one: then it can take them up again.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import acp
from acp import schema

STORE = os.environ.get("STORE", "")


class Agent:
    def __init__(self) -> None:
        self.heard: dict[str, list[str]] = {}
        self.cancelled = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        if os.environ.get("SLOW"):
            await asyncio.sleep(60)
        can = schema.AgentCapabilities(load_session=bool(STORE))
        version = int(os.environ.get("VERSION", protocol_version))
        return acp.InitializeResponse(protocol_version=version, agent_capabilities=can)

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        if os.environ.get("LOCKED"):
            raise acp.RequestError.auth_required({"details": os.environ["LOCKED"]})
        session = f"session-{os.getpid()}"
        self.heard[session] = []
        return acp.NewSessionResponse(session_id=session)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> acp.LoadSessionResponse:
        file = Path(STORE, session_id)
        if not file.exists():
            raise acp.RequestError.resource_not_found(session_id)
        self.heard[session_id] = json.loads(file.read_text())
        for text in self.heard[session_id]:
            await self.say(session_id, f"(again: {text})")
        return acp.LoadSessionResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        text = "".join(block.text for block in prompt)
        heard = self.heard[session_id]
        heard.append(text)
        if STORE:
            Path(STORE, session_id).write_text(json.dumps(heard))
        self.cancelled.clear()
        behaviour = getattr(self, f"do_{text.split()[-1]}", None)
        reason = await (behaviour or self.tell)(session_id)
        usage = schema.Usage(total_tokens=20, input_tokens=10, output_tokens=10)
        return acp.PromptResponse(stop_reason=reason or "end_turn", usage=usage)

    async def say(self, session_id: str, text: str) -> None:
        await self.client.session_update(session_id, acp.update_agent_message_text(text))

    async def tell(self, session_id: str) -> None:
        await self.say(session_id, f"{len(self.heard[session_id])}: ")
        await self.say(session_id, " | ".join(self.heard[session_id]))

    async def do_work(self, session_id: str) -> None:
        """Think, speak, call a tool of its own, with permission, and speak."""
        told = self.client.session_update
        await told(session_id, acp.update_agent_thought_text("Let me "))
        await told(session_id, acp.update_agent_thought_text("see."))
        await self.say(session_id, "I look.")
        await told(
            session_id, acp.start_tool_call("t1", "List files", kind="execute", raw_input={"cmd": "ls"})
        )
        call = schema.ToolCallUpdate(tool_call_id="t1", title="List files")
        options = [
            schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        asked = await self.client.request_permission(session_id=session_id, tool_call=call, options=options)
        chosen = getattr(asked.outcome, "option_id", asked.outcome.outcome)
        await told(session_id, acp.update_tool_call("t1", status="completed", raw_output=chosen))
        await told(session_id, acp.update_plan([acp.plan_entry("no part of the answer")]))
        await self.say(session_id, f"It said {chosen}.")

    async def do_hang(self, session_id: str) -> str:
        await self.say(session_id, "begun")
        await self.cancelled.wait()
        return "cancelled"

    async def do_stubborn(self, session_id: str) -> None:
        await self.say(session_id, "begun")
        await asyncio.sleep(60)

    async def do_die(self, session_id: str) -> None:
        await self.say(session_id, "I was about to")
        sys.stderr.write(f"out of memory {os.environ.get('SECRET_KEY', '')}\n")
        sys.stderr.flush()
        os._exit(7)

    async def do_refuse(self, session_id: str) -> str:
        return "refusal"

    async def do_fail(self, session_id: str) -> None:
        await self.say(session_id, "half")
        raise acp.RequestError.internal_error({"details": "rate limit reached"})

    async def do_break(self, session_id: str) -> None:
        sys.stderr.write("cannot run as root\n")
        sys.stderr.flush()
        await asyncio.sleep(0.1)
        raise acp.RequestError.internal_error()

    async def do_garbage(self, session_id: str) -> None:
        print("a warning")
        print('{"jsonrpc": "2.0", "method', flush=True)
        await asyncio.sleep(60)

    async def do_shout(self, session_id: str) -> None:
        await self.say(session_id, "x" * 12_000_000)


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Agent()))  # type: ignore[arg-type]
