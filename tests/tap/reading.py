"""The conversation of a request in any of the four APIs, and the script that a user's texts are.

A user's text directs the answers: `RUN «command»` calls the shell, `SPAWN «prompt»` a sub-agent (within its
prompt they are in […]), `LOOP «n»` calls a tool n times, `TOGETHER` makes all calls in one answer,
`THINK «thought»`, `LONG «n»` (words), `SAME` (each attempt has one text). Of the newest turn alone:
`ERROR 529` (also `ERROR 529x2`: twice), `ERROR EVENT`, `CUT`, `STALL`, `SLOW`; faults meet the first attempt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

RUN, SPAWN = re.compile(r"RUN (?:«(.+?)»|\[(.+?)\])", re.DOTALL), re.compile("SPAWN «(.+?)»", re.DOTALL)
THINK, LOOP, LONG = (
    re.compile("THINK «(.+?)»"),
    re.compile("LOOP [«[](\\d+)[»\\]]"),
    re.compile("LONG «(\\d+)»"),
)
FAULT = re.compile(r"\bERROR (\d{3}|EVENT)(?:x(\d+))?|\b(CUT|STALL)\b")
DID = re.compile(r"\[did (.+?)\]", re.DOTALL)
SUMMARIES = ("detailed summary", "CONTEXT CHECKPOINT COMPACTION", "state_snapshot", "SUMMARISE")
SHELLS = ("Bash", "bash", "exec_command", "shell", "run_shell_command", "run", "exec")
SPAWNERS = ("Task", "Agent", "task", "spawn_agent", "invoke_agent")
SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema")
MOST_CALLS = 400
"""An answer calls nothing in a conversation with more calls than this, so that no client runs for ever."""
AGENT_ID = re.compile(r'agent_id\\*": ?\\*"([0-9a-f-]{36})')


@dataclass
class Reading:
    """A request's conversation: texts of users, calls of tools, and what is new since the last answer."""

    texts: list[str] = field(default_factory=list)
    newest: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    calls_in_turn: int = 0
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    system: str = ""
    results: str = ""

    def user(self, text: str) -> None:
        """Take a user's text."""
        if LOOP.search(SPAWN.sub("", text)):
            self.calls_in_turn = 0
        self.texts.append(text)
        self.newest.append(text)

    def call(self, arguments: Any) -> None:
        """Take a call of the model."""
        self.calls.append("\n".join(_strings(arguments)))
        self.calls_in_turn += 1
        self.newest.clear()


@dataclass(frozen=True)
class Plan:
    """An answer to make: thoughts, a text, calls, and the fault that the first attempts meet."""

    think: str = ""
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    fault: str = ""
    faults: int = 0
    slow: bool = False


def read(body: dict[str, Any], earlier: Sequence[Any] = ()) -> Reading:
    """Return the conversation of a request; `earlier` are the items before it that the provider stored."""
    reading = Reading(tools=dict(_tools(body)))
    for message in body.get("messages") or ():
        _message(reading, message)
    supplied = body.get("input")
    for item in [
        *earlier,
        *([{"role": "user", "content": supplied}] if isinstance(supplied, str) else supplied or ()),
    ]:
        _item(reading, item)
    for content in body.get("contents") or ():
        _content(reading, content)
    system = body.get("system") or body.get("instructions") or body.get("systemInstruction") or ""
    reading.system += "\n".join(_strings(system))
    return reading


def _message(reading: Reading, message: dict[str, Any]) -> None:
    role, content = message.get("role"), message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    if role in ("system", "developer"):
        reading.system += "\n".join(_strings(blocks))
        return
    if role == "assistant":
        reading.newest.clear()
        for call in message.get("tool_calls") or ():
            reading.call(call["function"]["arguments"])
    for block in blocks:
        match block.get("type"):
            case "text" if role == "user":
                reading.user(block["text"])
            case "tool_use":
                reading.call(block["input"])
            case _:
                pass


def _item(reading: Reading, item: dict[str, Any]) -> None:
    match item.get("type", "message"), item.get("role"):
        case "message", "user":
            content = item.get("content")
            for block in [{"text": content}] if isinstance(content, str) else content or ():
                if isinstance(block.get("text"), str):
                    reading.user(block["text"])
        case "message", "assistant":
            reading.newest.clear()
        case (("function_call" | "custom_tool_call"), _):
            reading.call(item.get("arguments") or item.get("input"))
        case "additional_tools", _:
            reading.tools |= dict(_tools(item))
        case (("function_call_output" | "custom_tool_call_output"), _):
            reading.results += json.dumps(item.get("output"))
        case _:
            pass


def _content(reading: Reading, content: dict[str, Any]) -> None:
    if content.get("role") == "model":
        reading.newest.clear()
    for part in content.get("parts") or ():
        if "functionCall" in part:
            reading.call(part["functionCall"].get("args"))
        elif content.get("role") != "model" and isinstance(part.get("text"), str):
            reading.user(part["text"])


def _strings(value: Any) -> Iterator[str]:
    """Yield each string in a value; a string that is JSON counts as its value."""
    if isinstance(value, str) and value[:1] in "{[":
        try:
            value = json.loads(value)
        except ValueError:
            yield value
            return
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _tools(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for tool in body.get("tools") or ():
        if isinstance(tool.get("function"), dict):
            yield tool["function"]["name"], tool["function"]
        elif tool.get("type") == "namespace":
            yield from ((inner["name"], {**inner, "namespace": tool["name"]}) for inner in tool["tools"])
        elif "functionDeclarations" in tool:
            yield from ((inner["name"], inner) for inner in tool["functionDeclarations"])
        elif "name" in tool:
            yield tool["name"], tool


def plan(reading: Reading, seed: str) -> Plan:
    """Return the answer that a conversation's script asks for. Another seed gives another text."""
    script, newest = "\n".join(reading.texts), "\n".join(reading.newest)
    fault = FAULT.search(newest)
    met: dict[str, Any] = {"slow": "SLOW" in newest}
    if fault:
        met |= {"fault": fault[1] or fault[3], "faults": int(fault[2] or 1)}
    direct = SPAWN.sub("", script)
    if any(word in newest or (not reading.tools and word in reading.system) for word in SUMMARIES):
        done = " ".join(f"[did {one}]" for one in dict.fromkeys(commands(direct) + SPAWN.findall(script)))
        return Plan(text=f"<summary>Commands ran. {done}\n{prose(seed, 60)}</summary>", **met)
    if not reading.tools and "title" in (reading.system + newest).lower():
        return Plan(text=f"Commands, {prose(seed, 3)}", **met)
    think = THINK.findall(newest)
    thought = f"{think[-1]}. {prose(seed + 'think', 12)}" if think else ""
    calls = _calls(reading, script, direct, seed)
    count = int(LONG.findall(script)[-1]) if LONG.search(script) else 8
    text = prose(script if "SAME" in script else seed, count)
    return Plan(thought, text, tuple(calls if "TOGETHER" in script else calls[:1]), **met)


def _calls(reading: Reading, script: str, direct: str, seed: str) -> list[tuple[str, dict[str, Any]]]:
    did = "\n".join([*reading.calls, *DID.findall(script)])
    spawner = next((name for name in SPAWNERS if name in reading.tools), None)
    shell = next((name for name in SHELLS if name in reading.tools), next(iter(reading.tools), None))
    calls: list[tuple[str, dict[str, Any]]] = []
    if shell is None or len(reading.calls) > MOST_CALLS:
        return calls
    spawns = [prompt for prompt in SPAWN.findall(script) if prompt not in did] if spawner else []
    calls += [(str(spawner), arguments(reading.tools[str(spawner)], prompt, seed)) for prompt in spawns]
    wanted = dict.fromkeys(command for command in commands(direct) if command not in did)
    calls += [(shell, arguments(reading.tools[shell], command, seed)) for command in wanted]
    waits = "wait_agent" in reading.tools and not spawns and AGENT_ID.findall(reading.results)
    if waits and not any(waits[0] in call for call in reading.calls):
        calls.append(("wait_agent", {"targets": waits, "timeout_ms": 60000}))
    loops = LOOP.findall(direct)
    if loops and reading.calls_in_turn < int(loops[-1]):
        names = list(reading.tools)
        name = names[int(sha256(seed.encode()).hexdigest(), 16) % len(names)]
        calls.append((name, arguments(reading.tools[name], prose(seed, 6), seed)))
    return calls


def commands(text: str) -> list[str]:
    """Return the commands that a text asks for."""
    return [one or other for one, other in RUN.findall(text)]


def arguments(tool: dict[str, Any], text: str, seed: str) -> dict[str, Any]:
    """Return arguments of a tool: the text in its main parameter, and a value for each that is required."""
    schema: dict[str, Any] = next((tool[name] for name in SCHEMAS if tool.get(name)), {})
    properties: dict[str, Any] = schema.get("properties") or {}
    mains = ("command", "cmd", "prompt", "message", "task", "request", "objective", "path", "query")
    main = next((name for name in mains if name in properties), next(iter(properties), None))
    wanted = {*(schema.get("required") or ()), main}
    if tool.get("type") == "custom":
        return {"input": f"text(await tools.exec_command({{cmd: {json.dumps(text, ensure_ascii=False)}}}))"}
    supplied: dict[str, Any] = {}
    for name, parameter in properties.items():
        if name == main:
            supplied[name] = ["bash", "-lc", text] if parameter.get("type") == "array" else text
        elif name == "subagent_type":
            supplied[name] = "general" if "general:" in json.dumps(tool) else "general-purpose"
        elif name == "agent_name":
            supplied[name] = "generalist"
        elif name in wanted:
            kind = str(parameter.get("type", "string")).lower()
            values = {"integer": 3, "number": 1.5, "boolean": False, "array": [], "object": {}}
            supplied[name] = (parameter.get("enum") or [values.get(kind, prose(seed + name, 3))])[0]
    return supplied


WORDS = (
    *("file", "test", "line", "café", "branch", "naïve", "error", "文件"),
    *("value", "request", "☃", "loop", "answer", "«quoted»", "🎉", "<tag>"),
    *("&", "\\path", "größer", "user", "index", "table", "column", "first"),
    *("second", "tab\tstop", "merge", "日本", "build", "fails", "passes", "because"),
)


def prose(seed: str, count: int) -> str:
    """Return a text of so many words, the same for the same seed."""
    text: list[str] = []
    digest = b""
    for nth in range(count):
        if nth % 32 == 0:
            digest = sha256(f"{seed}/{nth}".encode()).digest()
        text.append(WORDS[digest[nth % 32] % len(WORDS)])
    return " ".join(text)
