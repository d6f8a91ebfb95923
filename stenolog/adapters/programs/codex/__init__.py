"""Codex."""

import json

from stenolog.domain.base.registry import Reference
from stenolog.projections.programs import (
    AccountUpstream,
    FileFormat,
    Foreign,
    Program,
    RequestSigns,
    SessionFolder,
    TapLaunch,
    shows,
)

TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
STREAM = (
    *("thread.started", "turn.completed", "turn.failed"),
    *("item.started", "item.updated", "item.completed"),
)
"""The types of lines that `exec --json` writes."""


def begin(given: TapLaunch) -> list[str]:
    """Return the command with an option for the tap: Codex reads its base URL from its configuration only."""
    option = f"openai_base_url={json.dumps(f'{given.base}/openai')}"
    return [*given.words[: given.at + 1], "-c", option, *given.words[given.at + 1 :]]


PROGRAM = Program(
    "codex",
    sessions=(
        FileFormat(
            "codex",
            "a Codex rollout",
            f"{__name__}.sessions:CODEX",
            (shows("payload", type=TYPES),),
            precedence=-1,
        ),
        FileFormat(
            "codex-exec",
            "a Codex exec stream",
            f"{__name__}.exec_stream:EXEC",
            (shows(type=STREAM),),
            precedence=-1,
        ),
    ),
    foreign=(Foreign("a call in a log of the first Codex CLI", shows("type", "function", "arguments")),),
    folders=(SessionFolder("CODEX_HOME", ".codex", "sessions"),),
    executable="codex",
    variables=("OPENAI_*", "CODEX_*"),
    output=Reference(f"{__name__}.output", "LINES"),
    command=lambda words: words if "exec" in words else [words[0], "exec", *words[1:]],
    requests=RequestSigns("codex", ("codex",), turn="x-codex-turn-metadata"),
    wrapped=(
        r"\s*<(environment_context|user_instructions|permissions instructions|collaboration_mode"
        r"|(apps|skills|plugins)_instructions)\b",
    ),
    launch=Reference(__name__, "begin"),
    account=AccountUpstream("chatgpt", "https://chatgpt.com/backend-api/codex", instead_of="openai"),
    exporter=Reference(f"{__name__}.session_file", "TO_CODEX"),
    api=Reference("stenolog.projections.formats.openai_responses.write", "NAME"),
    failed=(
        r"(?:(?:Chunk ID|Wall time): .*\n)*(?:Process exited with code|Exit code:) -?[1-9]"
        r"|apply_patch verification failed"
        r'|\{"output":.*"metadata":\{"exit_code":-?[1-9]'
    ),
)
