"""Claude Code, and the Claude Agent SDK."""

import json
import re
from contextlib import suppress

from stenolog.domain.base.registry import Reference
from stenolog.projections.programs import (
    FileFormat,
    Foreign,
    Program,
    RequestSigns,
    SessionFolder,
    SubAgentFiles,
    shows,
)

SUB_AGENTS = SubAgentFiles(
    "agent-",
    ".meta.json",
    "spawnDepth",
    home="CLAUDE_CONFIG_DIR",
    usual=".claude",
    place="projects/*/{session}/subagents/agent-{agent}.meta.json",
    fields=("agentType", "description", "toolUseId"),
)
ASIDE = {
    "file-history-snapshot": "snapshot",
    "summary": "leafUuid",
    "progress": "data",
    "system": "subtype",
    "queue-operation": "operation",
    "permission-mode": "permissionMode",
    "ai-title": "sessionId",
    "last-prompt": "sessionId",
    "attachment": "attachment",
}
"""Records beside the messages, by their types, each with a field that it has."""


def _command(words: list[str]) -> list[str] | None:
    if "--output-format" in words:
        return None
    return words if {"-p", "--print"} & {*words} else [*words, "-p"]


_SESSION = re.compile(r"_session_([0-9a-f-]{36})$")


def _session_of(user: str) -> str:
    with suppress(ValueError, RecursionError):
        if isinstance(found := json.loads(user), dict) and isinstance(id := found.get("session_id"), str):
            return id
    end = _SESSION.search(user)
    return end[1] if end else ""


SESSIONS = "~/.claude/projects"
"""The folder of its sessions, for examples."""
COMMAND = "claude"
PROGRAM = Program(
    "claude-code",
    sessions=(
        FileFormat(
            "claude-code",
            "a Claude Code session",
            f"{__name__}.files:CLAUDE_CODE",
            (shows(type=("user", "assistant", *ASIDE)),),
            precedence=-1,
        ),
        FileFormat(
            "claude-code-note",
            "a Claude Code session",
            f"{__name__}.files:CLAUDE_CODE_NOTE",
            (shows("agentType", whole=True),),
        ),
        FileFormat(
            "claude-stream",
            "a Claude Code stream",
            f"{__name__}.files:CLAUDE_STREAM",
            (shows("session_id", type=("user", "assistant", "result")),),
            precedence=-1,
        ),
    ),
    foreign=(
        Foreign("a Claude Code session without a message", shows("uuid", "parentUuid", "sessionId", "type")),
    ),
    folders=(SessionFolder("CLAUDE_CONFIG_DIR", ".claude", "projects"),),
    sub_agents=SUB_AGENTS,
    executable=COMMAND,
    variables=("ANTHROPIC_*", "CLAUDE_*", "CLAUDECODE", "IS_SANDBOX"),
    output=Reference(f"{__name__}.output", "LINES"),
    command=_command,
    requests=RequestSigns(
        "claude",
        ("claude-cli",),
        ("x-claude-code-session-id",),
        ("x-claude-code-agent-id",),
        session_of=_session_of,
    ),
    wrapped=(r"\s*<system-reminder\b",),
    exporter=Reference(f"{__name__}.session_file", "TO_CLAUDE_CODE"),
    api=Reference("stenolog.projections.formats.anthropic.write", "NAME"),
    first_party=("_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL", "ANTHROPIC_BASE_URL"),
)
