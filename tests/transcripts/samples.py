"""A conversation in each format that contrib reads, and what the raw file says in it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

from tests.requests.judging import SHARED
from tests.transcripts import (
    programs_given,
    recorded,
    test_adk,
    test_ai_sdk,
    test_atif,
    test_burr,
    test_chatgpt,
    test_codex_exec,
    test_deepseek_harness,
    test_gemini_and_qwen,
    test_goose,
    test_inspect_ai,
    test_mapping,
    test_openai_agents,
    test_opencode,
    test_openhands,
    test_otlp,
    test_pydantic_ai_files,
    test_swe_agent,
)
from tests.transcripts.acceptance import Said
from tests.transcripts.copilot_given import sub_agent
from tests.transcripts.dsh_sessions import Session, told_in_all
from tests.transcripts.given import (
    assistant,
    codex,
    item,
    lines,
    message,
    meta,
    text,
    tool_result,
    tool_use,
    user,
)
from tests.transcripts.opencode_given import session, write_database, write_folder
from tests.transcripts.openhands_given import ONE

Write = Callable[[Path, list[Any]], Path]
WORDS = re.compile(
    "text|thinking|thinkingSignature|signature|encrypted_content|content|refusal|reasoning|reasoning_content"
    "|reasoningText|reasoningOpaque|encryptedContent|thought|response|observation|output|result|query|msg|error"
    "|errorText|errorMessage|rejection_reason|summary|instructions|prompt|exception|message|arguments"
    "|function_name|tool"
)
"""The fields whose texts somebody said."""
GIVEN = frozenset(("arguments", "args", "input", "functionCall", "function_call"))
"""The fields whose own fields name a call, or were given to its tool."""
CALL_IDS = frozenset(("tool_call_id", "toolCallId", "call_id", "callID", "callId"))
ASIDE = frozenset(("toolUseResult", "reward_info", "task"))
"""The fields in which a program keeps its own copy of a result, or the expected conversation."""
CALLS = frozenset(("toolRequest", "toolCall", "tool-call", "function"))


class Sample(NamedTuple):
    """A conversation record by record, and how a file of some of them is written.

    `silent` are the types and fields in which nobody speaks.
    """

    name: str
    format: str
    records: list[Any]
    write: Write
    silent: frozenset[str] = frozenset()
    first: int = 1
    """The number of records from which a file of them is one of the format."""
    has_ids: bool = False
    """True if its records have ids or places of their own."""
    is_picky: bool = False
    """True if a record of another shape cannot be written in it, or is refused with a reason of its own."""

    def file(self, folder: Path, records: list[Any] | None = None) -> Path:
        """Write a file anew."""
        rmtree(folder / "sample", ignore_errors=True)
        (folder / "sample").mkdir()
        return self.write(folder / "sample", self.records if records is None else records)


class Recorded(NamedTuple):
    """A recorded file; requests are checked at every so manieth position, 0 if tests/requests does it."""

    path: Path
    format: str
    every: int = 1
    silent: frozenset[str] = frozenset()


def said(value: Any, silent: frozenset[str], field: str = "") -> Iterator[Said]:
    """Yield the words and the calls in a value, whatever its format."""
    if isinstance(value, str) and field == "stringValue" and value.startswith("["):  # JSON in an attribute
        yield from said(json.loads(value), silent)
    elif isinstance(value, str) and field not in silent:
        if WORDS.fullmatch(field) or field == "given":
            yield field, value
        if field in CALL_IDS:
            yield "call", value
    elif isinstance(value, list):
        for each in value:
            yield from said(each, silent, field)
    elif isinstance(value, dict) and value.get("type") not in silent:
        if value.get("type") in CALLS and isinstance(value.get("id"), str):
            yield "call", value["id"]
        for key in value.keys() - ASIDE:
            yield from said(
                value[key], silent, "given" if field in GIVEN and not WORDS.fullmatch(key) else key
            )


def values_in(path: Path) -> Iterator[Any]:
    """Yield the JSON in a file, in the cells of a database, or in all files of a folder."""
    if path.is_dir():
        for file in sorted(path.rglob("*.json")):
            yield from values_in(file)
    elif path.suffix == ".db":
        with closing(sqlite3.connect(path)) as connection:
            tables = [n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = [row for table in tables for row in connection.execute(f"SELECT * FROM {table}")]
        yield from (json.loads(cell) for row in rows for cell in row if str(cell)[:1] in ("[", "{"))
    elif path.suffix == ".har":
        for entry in json.loads(path.read_bytes())["log"]["entries"]:
            yield json.loads(entry["request"]["postData"]["text"])
            yield json.loads(entry["response"]["content"]["text"])
    elif path.suffix == ".jsonl":
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            yield from _objects(line.strip())
    else:
        yield json.loads(path.read_bytes())


def _objects(line: str) -> Iterator[Any]:
    """Yield the objects that are glued together on a line, up to one that is broken."""
    while line.startswith("{"):
        try:
            value, end = json.JSONDecoder().raw_decode(line)
        except ValueError:
            return
        line = line[end:].lstrip()
        yield value


def said_in(path: Path, silent: frozenset[str]) -> list[Said]:
    """Return all that was said in a file."""
    return [each for value in values_in(path) for each in said(value, silent)]


def on_lines(folder: Path, records: list[Any]) -> Path:
    (path := folder / "talk.jsonl").write_bytes(lines(*(json.dumps(each) for each in records)))
    return path


def in_document(field: str = "", document: Any = None, name: str = "talk.json") -> Write:
    """Return a writer of a document that has the records in a field, or is the list of them."""

    def write(folder: Path, records: list[Any]) -> Path:
        (path := folder / name).write_text(json.dumps({**document, field: records} if field else records))
        return path

    return write


def _swe_agent(folder: Path, records: list[Any]) -> Path:
    """Write a run with the steps of its answers."""
    answers = [each for each in records if isinstance(each, dict) and each.get("role") == "assistant"]
    steps = [test_swe_agent.step(each["content"]) for each in answers if isinstance(each["content"], str)]
    about = {"environment": "main", "trajectory": steps, "info": {}, "replay_config": {}}
    return in_document("history", about, "shop.traj")(folder, records)


def _mapped(folder: Path, records: list[Any]) -> Path:
    (folder / "talk.mapping.toml").write_text(test_mapping.MAPPING)
    return on_lines(folder, records)


def _evaluation(folder: Path, records: list[Any]) -> Path:
    cases = [{"eval_id": "lamp", "conversation": records}]
    return in_document("eval_cases", {"eval_set_id": "set"})(folder, cases)


def _dsh_of_each_kind() -> list[Any]:
    """Return a session with a record of each kind that is not in the others."""
    session = Session(0)
    session.user("Which loaves are left?", "u1")
    for kind in (
        "system/message",
        "request/header",
        "turn/end",
        "assistant/attempt",
        "llm/retry",
        "assistant/chunk",
        "agent/inbox/spliced",
        "tool/ptc-dispatch",
    ):
        data = {"message": {"content": []}, "stream": [], "reason": {}, "chunk": {"index": 0, "type": "x"}}
        session.add(kind, data, surfaceOp={"op": "replace", "start": 90, "end": 91})
    return session.lines


def _agents(folder: Path, records: list[Any]) -> Path:
    return test_openai_agents.add(folder / "sessions.db", *records)


def _goose(form: str) -> Write:
    return lambda folder, records: test_goose.in_form(folder, form, records)


OF_OPENHANDS = frozenset(("message", "observation"))
RUN: dict[str, Any] = {"instance_id": "r", "instance": {"repo": "a/b"}, "error": "", "instruction": ""}
RUN |= {"metadata": {"llm_config": {"model": "m"}}}
ATIF = test_atif.trajectory(trajectory_id="t", extra={"a": 1}, subagent_trajectories=[])
CLAUDE = [
    user("u1", None, "Which loaves are left?"),
    assistant(
        "a1", "u1", {"type": "thinking", "thinking": "I look.", "signature": "c2ln"}, text("A moment.")
    ),
    assistant("a2", "a1", tool_use("t1", command="ls"), id="msg_a1"),
    user("r1", "a2", [tool_result("t1", [text("rye")])]),
    assistant("a3", "r1", text("Rye.")),
    user("u2", "a3", [text("Thanks.")]),
]
GEMINI = [getattr(test_gemini_and_qwen, name) for name in ("HEAD", "HI", "HO", "MORE", "AYE")]
QWEN = [*map(json.loads, test_gemini_and_qwen.FILES["qwen"].read_text().splitlines())]


def _pi(id: str, parent: str | None, words: str = "", type: str = "message", **fields: Any) -> dict[str, Any]:
    role = {"u": "user", "a": "assistant", "r": "toolResult"}.get(id[0], "")
    message = {"message": {"role": role, "content": [{"type": "text", "text": words}], **fields}}
    about = message if type == "message" else fields
    return {"type": type, "id": id, "parentId": parent, "timestamp": "2026-01-02T03:04:05.678Z", **about}


PI_CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}
PI = [
    {**_pi("s-1", None, type="session", version=3, cwd="/home/user/shop")},
    _pi("u1", None, "First question"),
    _pi("a1", "u1", "First answer", provider="anthropic", model="claude-x", stopReason="stop"),
    _pi("u2", "a1", "Second question"),
    _pi("a2", "u2", "Second answer"),
    _pi("u3", "a1", "Other question"),
    _pi("a3", "u3", content=[{"type": "text", "text": "I look"}, PI_CALL]),
    _pi("r1", "a3", "done", toolCallId="c1", toolName="bash"),
    _pi("k1", "r1", type="compaction", summary="They met.", firstKeptEntryId="a3"),
    _pi("u4", "a2", "Third question"),
]
CODEX = [
    meta(cwd="/shop"),
    codex("turn_context", model="gpt-x", approval_policy="never"),
    message("user", "Which loaves are left?"),
    item("reasoning", summary=[{"type": "summary_text", "text": "I look."}], encrypted_content="gAAA"),
    item("function_call", name="shell", arguments='{"command":["ls"]}', call_id="c1"),
    item("function_call_output", call_id="c1", output="rye"),
    message("assistant", "Rye."),
    message("user", "Thanks."),
]
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Which loaves are left?"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "rye"},
    {"role": "assistant", "content": "Rye."},
]
SESSIONS = [session(), test_opencode.CHILD]
TALK = test_opencode.with_sub_agent()
ADK = json.loads(test_adk.SAMPLE.read_bytes())
AI_SDK = [json.loads(path.read_bytes()) for path in test_ai_sdk.FILES]
HISTORY = json.loads(test_pydantic_ai_files.dumped(test_pydantic_ai_files.history()))
SUB_AGENT = sub_agent({"agentId": "agent-7"})
SAMPLES = [
    Sample("claude-code", "claude-code", CLAUDE, on_lines, has_ids=True),
    Sample("codex", "codex", CODEX, on_lines),
    Sample("gemini-cli", "gemini-cli", GEMINI, on_lines, has_ids=True),
    Sample("qwen-code", "qwen-code", QWEN, on_lines),
    Sample("openai-chat", "openai-chat", CHAT, in_document(), is_picky=True),
    Sample("mapping", "mapping", test_mapping.TALK, _mapped, is_picky=True),
    Sample("pydantic-ai-0", "pydantic-ai", test_pydantic_ai_files.OLD, in_document()),
    Sample("adk-evaluation", "adk", [test_adk.NEW_TURN, test_adk.EVENTS_TURN], _evaluation),
    Sample("pi", "pi", PI, on_lines, has_ids=True),
    *(
        Sample(f"goose-{form}", "goose", test_goose.SESSION, _goose(form), is_picky=form == "database")
        for form in test_goose.FORMS
    ),
    Sample(
        "opencode",
        "opencode",
        TALK,
        lambda to, some: write_folder(to / "storage", SESSIONS, some),
        has_ids=True,
    ),
    Sample(
        "opencode-db",
        "opencode",
        TALK,
        lambda to, some: write_database(to / "o.db", SESSIONS, some),
        has_ids=True,
    ),
    Sample("copilot-cli", "copilot-cli", SUB_AGENT, on_lines, has_ids=True),
    Sample("openhands-0", "openhands", test_openhands.BASE, on_lines, OF_OPENHANDS, has_ids=True),
    Sample(
        "openhands-run",
        "openhands",
        test_openhands.BASE,
        in_document("history", RUN),
        OF_OPENHANDS,
        has_ids=True,
    ),
    Sample("openhands-1", "openhands", ONE, on_lines, has_ids=True),
    *(
        Sample(f"ai-sdk-{nth}", "ai-sdk", each["messages"], in_document("messages", each))
        for nth, each in enumerate(AI_SDK)
    ),
    Sample("ai-sdk-4", "ai-sdk", test_ai_sdk.OLD, in_document(), first=2),
    Sample("adk", "adk", ADK["events"], in_document("events", ADK), has_ids=True),
    Sample("openai-agents", "openai-agents", test_openai_agents.ITEMS, _agents),
    Sample("pydantic-ai", "pydantic-ai", HISTORY, in_document()),
    Sample("atif", "atif", test_atif.STEPS, in_document("steps", ATIF), has_ids=True),
    Sample("swe-agent", "swe-agent", test_swe_agent.HISTORY, _swe_agent),
    Sample(
        "mini",
        "swe-agent",
        test_swe_agent.MINI,
        in_document("messages", test_swe_agent.trajectory()),
    ),
    *(
        Sample(f"dsh-{version}", "deepseek-harness", told_in_all(version).lines, on_lines)
        for version in test_deepseek_harness.VERSIONS
    ),
    Sample("dsh-others", "deepseek-harness", _dsh_of_each_kind(), on_lines),
    Sample("burr", "burr", test_burr.CHAT, on_lines, has_ids=True),
    Sample("cline", "cline", programs_given.CLINE, in_document("messages", programs_given.SDK)),
    Sample("cline-history", "cline", programs_given.HISTORY, in_document(), first=2),
    Sample("droid", "droid", programs_given.DROID, on_lines, has_ids=True),
    Sample("amp", "amp", programs_given.AMP, in_document("messages", programs_given.THREAD)),
    Sample("kimi", "kimi", programs_given.KIMI, on_lines),
    Sample("cursor", "cursor", programs_given.CURSOR, programs_given.write_cursor),
    Sample("cursor-transcript", "cursor-transcript", programs_given.TRANSCRIPT, on_lines),
    Sample("har", "har", recorded.HAR, recorded.write_archive, has_ids=True),
    Sample("codex-exec", "codex-exec", test_codex_exec.RUN, on_lines),
    Sample("chatgpt", "chatgpt", test_chatgpt.NODES, test_chatgpt.write_export, has_ids=True),
    Sample("inspect-ai", "inspect-ai", test_inspect_ai.MESSAGES, test_inspect_ai.write_json, has_ids=True),
    Sample("otlp", "otlp", test_otlp.SPANS, test_otlp.on_lines, has_ids=True),
    Sample("litellm", "litellm", recorded.PAYLOADS, on_lines, has_ids=True),
    Sample("helicone", "helicone", recorded.LOGGED, on_lines, has_ids=True),
]


EMPTY = ("ec-38b74f08e3-2.jsonl",)
"""A chat in which nobody says anything."""


def _recorded(format: str, folder: str, pattern: str, every: int = 1, *silent: str) -> list[Recorded]:
    found = sorted((SHARED / "transcripts" / folder).glob(pattern))
    return [Recorded(path, format, every, frozenset(silent)) for path in found if path.name not in EMPTY]


RECORDED = [
    *_recorded("", "claude_code", "*.jsonl", 0, "system", "summary", "output"),
    *_recorded("claude-code", "claude_code_fixtures", "*.jsonl", 0),
    *_recorded("codex", "codex", "*.jsonl", 0, "event_msg"),
    *_recorded("openai-chat", "tau_bench", "*.json", 0),
    *_recorded("pi", "pi", "*.jsonl", 40),
    *_recorded("pi", "agent_sessions_fixtures", "*openclaw*.jsonl"),
    *_recorded("copilot-cli", "copilot_cli", "*.jsonl", 20, "hook.start", "session.info"),
    *_recorded(
        "copilot-cli",
        "agent_sessions_fixtures",
        "*copilot*.jsonl",
        1,
        *("hook.start", "session.info", "tool.execution_start"),
    ),
    *_recorded("openhands", "openhands", "*output.jsonl", 7, "message", "observation", "given", "thought"),
    *_recorded("adk", "adk", "*.json"),
    *_recorded("atif", "atif", "*.json"),
    *_recorded("swe-agent", "swe_agent", "*.traj*", 3),
    *_recorded("burr", "burr", "*.jsonl"),
    *_recorded("kimi", "agent_sessions_fixtures", "*kimi*.jsonl", 7, "context.apply_compaction", "tools"),
    *_recorded("droid", "agent_sessions_fixtures", "*droid__session_store*.jsonl"),
    *_recorded("cursor-transcript", "agent_sessions_fixtures", "*cursor*.jsonl"),
]
