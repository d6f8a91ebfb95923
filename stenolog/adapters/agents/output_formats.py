"""Formats of the JSON lines that agents' programs speak: plain ones, and those of four known agents.

Claude Code's own tool calls and results, and those of its sub-agents, are kept as what it did; what these say
is not its answer.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias

from stenolog.domain.limits import Tokens
from stenolog.domain.registry import Registry
from stenolog.domain.values import COUNTS, Usage
from stenolog.projections.formats.anthropic.read import usage as anthropic_usage
from stenolog.projections.formats.openai_responses.read import usage as openai_usage
from stenolog.projections.messages.json_fields import as_dict, as_int, as_list, as_str

from .answer_buffer import ResponseBuilder

CLAUDE_CODE_RESUME = ("--resume", "{session}")
CLAUDE_CODE_SPEAK = ("--output-format", "stream-json", "--verbose", "--include-partial-messages")
CLAUDE_CODE_LISTEN = ("--input-format", "stream-json")
SYNTHETIC = "<synthetic>"
"""The model of messages that Claude Code writes itself, such as the words of an error."""
GONE = "no conversation found"
"""In what it says where it cannot resume the session."""


def claude_code_prompt(prompt: str) -> dict[str, Any]:
    """Return a request as `--input-format stream-json` has it."""
    return {"type": "user", "message": {"role": "user", "content": prompt}}


def read_claude_code(line: dict[str, Any], turn: ResponseBuilder) -> None:
    """Pass a line on to the turn."""
    turn.session = as_str(line.get("session_id")) or turn.session
    message = as_dict(line.get("message"))
    if parent := as_str(line.get("parent_tool_use_id")):
        for block in _blocks(message):
            if block.get("type") in ("tool_use", "tool_result"):
                turn.add_note({**block, "parent_tool_use_id": parent})
        return
    match line.get("type"):
        case "stream_event":
            _claude_code_event(as_dict(line.get("event")), turn)
        case "assistant" if message.get("model") != SYNTHETIC:
            _claude_code_message(message, turn)
        case "user":
            for block in _blocks(message):
                if block.get("type") == "tool_result":
                    turn.add_note(block)
        case "result":
            _claude_code_result(line, turn)
        case _:
            pass


def _claude_code_event(event: dict[str, Any], turn: ResponseBuilder) -> None:
    """Pass on a piece of a message that Claude Code sends again in full."""
    match event.get("type"):
        case "message_start":
            message = as_dict(event.get("message"))
            turn.current = as_str(message.get("id"))
            turn.heard.add(turn.current)
            _count(turn, as_dict(message.get("usage")))
        case "message_delta":
            _count(turn, as_dict(event.get("usage")))
        case "content_block_start":
            turn.break_part()
        case "content_block_delta":
            _delta(as_dict(event.get("delta")), turn)
        case _:
            pass


def _delta(delta: dict[str, Any], turn: ResponseBuilder) -> None:
    match delta.get("type"):
        case "text_delta":
            turn.add_text(as_str(delta.get("text")))
        case "thinking_delta" | "signature_delta":
            turn.add_reasoning(as_str(delta.get("thinking")), as_str(delta.get("signature")))
        case _:
            pass


def _count(turn: ResponseBuilder, counted: dict[str, Any]) -> None:
    """Count a message that is still under way; its later counts replace those fields that they have."""
    if not counted:
        return
    turn.counted[turn.current] = {**turn.counted.get(turn.current, {}), **counted}
    turn.usage = reduce(_sum, (found for each in turn.counted.values() if (found := anthropic_usage(each))))


def _sum(one: Usage, other: Usage) -> Usage:
    counts = Tokens().plus(one).plus(other)._asdict()
    return replace(other, **{name: count for name, count in counts.items() if name != "cost"})


def _claude_code_message(message: dict[str, Any], turn: ResponseBuilder) -> None:
    turn.model = as_str(message.get("model")) or turn.model
    name = as_str(message.get("id"))
    streamed = name in turn.heard
    if not streamed:
        turn.current = name
        _count(turn, as_dict(message.get("usage")))
    for block in _blocks(message):
        match block.get("type"):
            case "text" | "thinking" if streamed:
                pass
            case "text":
                turn.break_part()
                turn.add_text(as_str(block.get("text")))
            case "thinking":
                turn.break_part()
                turn.add_reasoning(as_str(block.get("thinking")), as_str(block.get("signature")))
            case _:
                turn.add_note(block)


def _claude_code_result(line: dict[str, Any], turn: ResponseBuilder) -> None:
    words = as_str(line.get("result"))
    turn.usage = anthropic_usage(line.get("usage")) or turn.usage
    turn.costs(line.get("total_cost_usd"))
    if line.get("is_error") or line.get("subtype", "success") != "success":
        subtype = as_str(line.get("subtype")).replace("_", " ")
        reasons = [reason for reason in as_list(line.get("errors")) if isinstance(reason, str)]
        if any(GONE in reason.lower() for reason in reasons):
            turn.resumes = False
            turn.fail("; ".join(reasons), "process_exited")
        turn.fail("; ".join(filter(None, [words or subtype, *reasons])))
    turn.finish_reason = as_str(line.get("stop_reason"))
    turn.finish(words)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in as_list(message.get("content")) if isinstance(block, dict)]


CODEX_SPEAK = ("--json",)
CODEX_RESUME = ("resume", "{session}", "-")
"""The dash has it read the prompt from stdin there too."""
CODEX_WORDS = ("agent_message", "reasoning")
"""The items that are words; all others are things that it did."""


def read_codex(line: dict[str, Any], turn: ResponseBuilder) -> None:
    """Tell the turn what a line says.

    An `error` is passed over: Codex retries, and where it gives up the turn fails.
    """
    match line.get("type"):
        case "thread.started":
            turn.session = as_str(line.get("thread_id")) or turn.session
        case "item.started" | "item.updated":
            item = as_dict(line.get("item"))
            if item.get("type") not in CODEX_WORDS:
                turn.add_note(item, as_str(item.get("id")))
        case "item.completed":
            _codex_item(as_dict(line.get("item")), turn)
        case "turn.completed":
            turn.usage, turn.usage_is_total = openai_usage(line.get("usage")), True
            turn.finish()
        case "turn.failed":
            turn.fail(as_str(as_dict(line.get("error")).get("message")))
        case _:
            pass


def _codex_item(item: dict[str, Any], turn: ResponseBuilder) -> None:
    turn.break_part()
    match item.get("type"):
        case "agent_message":
            turn.add_text(as_str(item.get("text")))
        case "reasoning":
            turn.add_reasoning(as_str(item.get("text")))
        case _:
            turn.add_note(item, as_str(item.get("id")))


QWEN_CODE_SPEAK = ("--output-format", "stream-json", "--include-partial-messages")
GEMINI_CLI_SPEAK = ("--output-format", "stream-json")


def read_gemini_cli(line: dict[str, Any], turn: ResponseBuilder) -> None:
    """Pass a line of Gemini CLI on to the turn; its calls and results get the form of Claude Code's."""
    match line.get("type"):
        case "init":
            turn.session = as_str(line.get("session_id")) or turn.session
        case "message" if line.get("role") == "assistant":
            turn.add_text(as_str(line.get("content")))
        case "tool_use":
            turn.break_part()
            name, arguments = as_str(line.get("tool_name")), line.get("parameters")
            turn.add_note({"type": "tool_use", "id": line.get("tool_id"), "name": name, "input": arguments})
        case "tool_result":
            failed = line.get("status") != "success"
            said = as_str(as_dict(line.get("error")).get("message")) or line.get("output")
            told = {"tool_use_id": line.get("tool_id"), "content": said, "is_error": failed}
            turn.add_note({"type": "tool_result", **told})
        case "result":
            _gemini_cli_result(line, turn)
        case _:
            pass


def _gemini_cli_result(line: dict[str, Any], turn: ResponseBuilder) -> None:
    stats = as_dict(line.get("stats"))
    models = as_dict(stats.get("models"))
    # A small model may have chosen the one that answers.
    turn.model = max(models, key=lambda name: as_int(as_dict(models[name]).get("output_tokens")), default="")
    given, whole = as_int(stats.get("input_tokens")), as_int(stats.get("total_tokens"))
    # The total has the thoughts, too.
    output = max(as_int(stats.get("output_tokens")), whole - given)
    turn.usage = Usage(input=given, output=output, cache_read=as_int(stats.get("cached")))
    if line.get("status") != "success":
        turn.fail(as_str(as_dict(line.get("error")).get("message")))
    turn.finish()


def read_qwen_code(line: dict[str, Any], turn: ResponseBuilder) -> None:
    """Pass a line of Qwen Code on to the turn: the form is Claude Code's, the counts are OpenAI's."""
    message = as_dict(line.get("message"))
    if counted := as_dict(message.get("usage")):
        turn.counted[as_str(message.get("id"))] = counted
        turn.usage = reduce(_sum, map(_qwen_usage, turn.counted.values()))
    # Its result counts the whole session, and some of it twice.
    told = {**line, "message": {**message, "usage": None}, "usage": None, "total_cost_usd": None}
    read_claude_code(told, turn)


def _qwen_usage(counted: dict[str, Any]) -> Usage:
    return Usage(
        input=as_int(counted.get("input_tokens")),
        output=as_int(counted.get("output_tokens")),
        cache_read=as_int(counted.get("cache_read_input_tokens")),
    )


Reader: TypeAlias = Callable[[dict[str, Any], ResponseBuilder], None]
"""Tells the turn what one line says, and nothing where it says nothing. Raises `ModelError`."""


def prompted(prompt: str) -> dict[str, Any]:
    """Return the default form of a request: `{"prompt": …}`."""
    return {"prompt": prompt}


@dataclass(frozen=True)
class JsonLines:
    """A program's form of JSON lines.

    `read` understands a line of its output. `ask` makes the line that a request is, for a program that runs
    on (one that is run for each request gets the bare prompt). `resume` are the arguments that take up a
    session, `{session}` standing for its id; without them a session ends with its process. `speak` are those
    that make it write such lines, `listen` those that make it read them; a command that has the first of them
    has them all.
    """

    read: Reader
    ask: Callable[[str], dict[str, Any]] = prompted
    resume: tuple[str, ...] = ()
    speak: tuple[str, ...] = ()
    listen: tuple[str, ...] = ()


def read(line: dict[str, Any], turn: ResponseBuilder) -> None:
    """Read the format for programs of one's own. Lines are told apart by `type`; others are passed over:

    - `text`, `reasoning`: more of it, in `text`
    - `session`: the `id` of the session
    - `note`: something that the program did by itself, kept as it is
    - `result`: the end; with `text` for an answer not told piece by piece, and if known `session`, `model`,
      `finish_reason`, `usage` (the counts of `Usage`)
    - `error`: the end, with a `message` and if known a `category` of `llm_error` and `retry_after` in seconds
    """
    match line.get("type"):
        case "text":
            turn.add_text(as_str(line.get("text")))
        case "reasoning":
            turn.add_reasoning(as_str(line.get("text")))
        case "session":
            turn.session = as_str(line.get("id")) or turn.session
        case "note":
            turn.add_note(line)
        case "result":
            _result(line, turn)
        case "error":
            turn.fail(as_str(line.get("message")), as_str(line.get("category")), line.get("retry_after"))
        case _:
            pass


def _result(line: dict[str, Any], turn: ResponseBuilder) -> None:
    turn.session = as_str(line.get("session")) or turn.session
    turn.model = as_str(line.get("model")) or turn.model
    turn.finish_reason = as_str(line.get("finish_reason"))
    if isinstance(counted := line.get("usage"), dict):
        counts: dict[str, Any] = {name: as_int(counted.get(name)) for name in COUNTS}
        turn.usage = Usage(**counts)
    turn.finish(as_str(line.get("text")))


OUTPUT_FORMATS: Registry[JsonLines] = Registry(
    "an output format other than text",
    {
        "jsonl": JsonLines(read),
        "claude-code": JsonLines(
            read_claude_code, claude_code_prompt, CLAUDE_CODE_RESUME, CLAUDE_CODE_SPEAK, CLAUDE_CODE_LISTEN
        ),
        "codex": JsonLines(read_codex, resume=CODEX_RESUME, speak=CODEX_SPEAK),
        "gemini-cli": JsonLines(read_gemini_cli, resume=CLAUDE_CODE_RESUME, speak=GEMINI_CLI_SPEAK),
        "qwen-code": JsonLines(
            read_qwen_code, claude_code_prompt, CLAUDE_CODE_RESUME, QWEN_CODE_SPEAK, CLAUDE_CODE_LISTEN
        ),
    },
)
"""The forms of JSON lines by their names; "text", plain text, is none of them."""


def split_command(command: str) -> tuple[str, str]:
    """Return a command line as its program needs it, and the name of the format that the program speaks.

    Claude Code, Codex, Gemini CLI and Qwen Code are known by their names; what they are told to write
    otherwise is plain text.
    """
    words = shlex.split(command)
    name = Path(words[0]).name if words else ""
    if name == "claude" and "--output-format" not in words:
        return shlex.join(words if {"-p", "--print"} & {*words} else [*words, "-p"]), "claude-code"
    if (form := {"gemini": "gemini-cli", "qwen": "qwen-code"}.get(name)) and not {
        "-o",
        *GEMINI_CLI_SPEAK[:1],
    } & {*words}:
        return command, form
    if name == "codex":
        return shlex.join(words if "exec" in words else [words[0], "exec", *words[1:]]), "codex"
    return command, "text"


def lines(form: str | JsonLines) -> JsonLines | None:
    """Return the form of that name; None for plain text. Raises `NotRegisteredError`."""
    if isinstance(form, JsonLines):
        return form
    return None if form == "text" else OUTPUT_FORMATS[form]
