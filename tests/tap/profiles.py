"""Programs of the corpus: their prompts and tools, how they write JSON, and which ids they send, if any."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from tests.tap.dialogues import Chat, Claude, Dialogue, Gemini, Json, Responses, tool
from tests.tap.reading import prose


class Ids(NamedTuple):
    """The ids of a program: its session, the agent in it ("" for the main one), and the turn."""

    session: str
    agent: str = ""
    turn: str = ""


class Profile(NamedTuple):
    """A program. `begin` makes a conversation of it, `style` writes its bodies, `stamp` adds its ids."""

    name: str
    upstream: str
    style: str
    agent: str
    begin: Callable[[Random, str], Dialogue]
    stamp: Callable[[Json, Ids], dict[str, str]]
    spawns: str = ""
    titles: bool = False

    @property
    def has_ids(self) -> bool:
        """Whether the program names its sessions."""
        return self.stamp is not _none


def uuid(random: Random) -> str:
    """Return an id as programs make them."""
    return str(UUID(int=random.getrandbits(128), version=4))


def tools(random: Random, number: int, count: int, shell: str, spawner: str = "") -> list[Json]:
    """Return tools with descriptions of so many words: a shell first."""
    built = [tool(shell, "Runs a command. " + prose(f"{shell}{count}", count), command="string")]
    if spawner:
        described = "Starts an agent. " + prose(f"{spawner}{count}", count)
        built.append(tool(spawner, described, prompt="string", subagent_type="string"))
    for nth in range(number):
        seed = f"tool {nth} {count}"
        built.append(tool(f"tool_{nth}", prose(seed, count), path="string", limit="integer", all="boolean"))
    return built


def _claude(random: Random, seed: str) -> Dialogue:
    billing = f"x-anthropic-billing-header: cc_version=2.1.197.{seed[:3]}; cc_entrypoint=cli; cch={seed[:5]};"
    system = [
        billing,
        "You are a coding agent.",
        prose("claude system", 900) + f"\nToday: 2026-11-{seed[:2]}",
    ]
    extra: dict[str, Any] = {"thinking": {"type": "adaptive"}, "metadata": {"user_id": "{}"}}
    listed = tools(random, 28, 330, "Bash", "Agent")
    return Claude("claude-sonnet-5", system, listed, extra=extra, caches=True)


def _claude_ids(body: Json, ids: Ids) -> dict[str, str]:
    supplied = json.dumps({"device_id": "d" * 64, "account_uuid": "", "session_id": ids.session})
    body["metadata"] = {"user_id": supplied}
    agent = {"x-claude-code-agent-id": ids.agent} if ids.agent else {}
    return {"X-Claude-Code-Session-Id": ids.session, **agent}


def _codex(random: Random, seed: str) -> Dialogue:
    extra = {
        "parallel_tool_calls": True,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    built = Responses(
        "gpt-6-sol", [prose("codex system", 2500)], tools(random, 8, 150, "exec_command"), extra=extra
    )
    environment = f"<environment_context>\n<cwd>/srv/{seed[:4]}</cwd>\n</environment_context>"
    built.say(environment)
    return built


def _codex_ids(body: Json, ids: Ids) -> dict[str, str]:
    thread = ids.agent or ids.session
    turn = {"session_id": ids.session, "thread_id": thread, "turn_id": ids.turn, "request_kind": "turn"}
    metadata = json.dumps(turn, separators=(",", ":"))
    body["prompt_cache_key"] = ids.session
    body["client_metadata"] = {"x-codex-turn-metadata": metadata, "thread_id": thread}
    return {"x-codex-turn-metadata": metadata, "session-id": ids.session, "thread-id": thread}


def _opencode(random: Random, seed: str) -> Dialogue:
    system = [prose("opencode system", 1200) + f"\nWorking directory: /srv/{seed[:4]}"]
    listed = tools(random, 11, 220, "bash", "task")
    return Chat("grok-6", system, listed, extra={"max_tokens": 32000, "temperature": 0.55})


def _opencode_ids(body: Json, ids: Ids) -> dict[str, str]:
    inner = ids.agent or ids.session
    parent = {"x-parent-session-id": ids.session} if ids.agent else {}
    return {"x-session-affinity": inner, "x-session-id": inner, **parent}


def _hermes(random: Random, seed: str) -> Dialogue:
    system = ["You are an agent on a phone.\n" + prose("hermes system", 500)]
    return Chat("hermes-4", system, tools(random, 6, 60, "run"), stream=False, extra={"temperature": 0.7})


def _go(random: Random, seed: str) -> Dialogue:
    return Chat("gpt-5-mini", [prose("go system", 700)], tools(random, 9, 90, "shell"), extra={"n": 1})


def _gemini(random: Random, seed: str) -> Dialogue:
    built = Gemini(
        "gemini-3.8-pro", [prose("gemini system", 1800)], tools(random, 12, 160, "run_shell_command")
    )
    built.say(f"<session_context>\nThis is the Gemini CLI. Folder /srv/{seed[:4]}\n</session_context>")
    return built


def _genai(random: Random, seed: str) -> Dialogue:
    return Gemini("gemini-3.8-flash", ["You answer. " + prose("genai", 80)], tools(random, 3, 30, "run"))


def _stored(random: Random, seed: str) -> Dialogue:
    extra = {"store": True}
    return Responses(
        "gpt-6-luna", ["You answer. " + prose("stored", 60)], tools(random, 4, 40, "run"), extra=extra
    )


def _script(random: Random, seed: str) -> Dialogue:
    extra = {"temperature": 1.0, "top_p": 0.9}
    return Claude(
        "claude-haiku-5", ["Be brief. " + prose("script", 40)], tools(random, 2, 30, "run"), extra=extra
    )


def _none(body: Json, ids: Ids) -> dict[str, str]:
    return {}


KEY = {"Authorization": "Bearer sk-planted-000000000000000000"}
_BETA = "claude-code-20250219,interleaved-thinking-2025-05-14"
HEADERS: Mapping[str, Mapping[str, str]] = {
    "claude": {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": _BETA,
        "x-app": "cli",
        "x-stainless-retry-count": "0",
        "X-Api-Key": "sk-ant-planted-0000000000000000",
    },
    "codex": {"originator": "codex_exec", **KEY},
    "gemini": {"x-goog-api-key": "AIzaPlanted00000000000000000000000000", "sec-fetch-mode": "cors"},
}
_ALL = (
    Profile(
        "claude", "anthropic", "node", "claude-cli/2.1.197 (external, cli)", _claude, _claude_ids, "Agent"
    ),
    Profile("codex", "openai", "compact", "codex_exec/0.169.0 (Debian; x86_64)", _codex, _codex_ids),
    Profile("opencode", "openai", "node", "opencode/1.18.33", _opencode, _opencode_ids, "task", titles=True),
    Profile("hermes", "openai", "spaced", "python-requests/2.32", _hermes, _none),
    Profile("go", "openai", "go", "Go-http-client/1.1", _go, _none),
    Profile("gemini", "gemini", "node", "GeminiCLI-tui/0.61.0/gemini-3.8-pro (linux)", _gemini, _none),
    Profile("genai", "gemini", "spaced", "google-genai-sdk/3.4.0 gl-python/3.11", _genai, _none),
    Profile("stored", "openai", "compact", "OpenAI/Python 3.52.0", _stored, _none),
    Profile("script", "anthropic", "compact", "Anthropic/Python 2.11.0", _script, _none),
)
PROFILES = {profile.name: profile for profile in _ALL}
