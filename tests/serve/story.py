"""The story that the example program of each language runs, and the same in plain Python.

An agent is asked what is in a box, and looks into two places. Its provider is a server on 127.0.0.1.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import run
from typing import Any
from urllib.request import Request, urlopen

import stenolog
from stenolog.engine import address, decision
from stenolog.events import CallRef, ToolResult, UserMessage
from stenolog.models import answer_from
from tests.llms.server import JSON, Received, Reply, Server

QUESTION = "What is in the box? Größe: 5 → 6 🐈"
ANSWER = "In the box: a cat 🐈.\u2028In “Größe\\ → 6”: another one."
LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look into a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}
FIXED = f"{sys.executable} {Path(__file__).with_name('fixed.py')}"
"""The command that starts a service with fixed times and ids, as `STENOLOG` names it."""


def provider() -> Server:
    """Return a provider whose model looks into two places, and then says what is there."""
    return Server(otherwise=_reply)


def _reply(request: Received) -> Reply:
    looked = request.body["messages"][-1]["role"] == "tool"
    message: dict[str, Any] = {"role": "assistant", "content": ANSWER if looked else None}
    if not looked:
        places = enumerate(("box", "Größe\\ → 6"))
        message["tool_calls"] = [_call(f"call_{number}", place) for number, place in places]
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5.2-2026-01-01",
        "choices": [{"index": 0, "finish_reason": "stop" if looked else "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 12, "total_tokens": 102},
    }
    return Reply([json.dumps(answer, ensure_ascii=False).encode()], headers=JSON)


def _call(id: str, place: str) -> dict[str, Any]:
    arguments = json.dumps({"place": place}, ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}}


def tell_in_python(log: stenolog.Log, base: str) -> str:
    """Run the story by Python's own API, and return the text of the last answer."""
    story = log["story"]
    story.join("coder", model="gpt-5.2", persona="You are coder.", tools=[LOOK])
    story.append(UserMessage(QUESTION, to=["coder"]), id="question")
    while True:
        state = story.state()
        lane = state.lane(address("coder"))
        match decision(state, lane).do:
            case "call_model":
                request = story.request("coder")
                answer = answer_from(_asked(base, request.bytes), request)
                story.append(answer, id=f"answer-{request.at}")
            case "run_tools":
                for call in lane.calls:
                    made = story.entry(call.position).event
                    assert isinstance(made, stenolog.AssistantMessage)
                    place = json.loads(made.tool_calls[call.nth].arguments)["place"]
                    where = CallRef(entry=call.entry, index=call.nth)
                    result = ToolResult(f"in the {place}: a cat", call_id=call.id, call=where, name=call.name)
                    story.append(result, id=f"result-{call.position}-{call.nth}")
            case _:
                last = story[-1].event
                assert isinstance(last, stenolog.AssistantMessage)
                return last.text


def _asked(base: str, body: bytes) -> Any:
    request = Request(f"{base}/chat/completions", body, {"content-type": "application/json"})
    with urlopen(request) as answer:
        return json.load(answer)


def tell(program: Sequence[str], db: Path, base: str, **settings: str) -> tuple[int, str]:
    """Run the program of a language, and return its exit code and what it printed."""
    env = {**os.environ, "STENOLOG": FIXED, "OPENAI_BASE_URL": base, **settings}
    done = run([*program, str(db)], env=env, capture_output=True, timeout=120)
    return done.returncode, done.stdout.decode()
