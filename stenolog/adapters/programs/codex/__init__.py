"""Codex."""

from stenolog.projections.programs import FileFormat, Foreign, Program, shows

TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
PROGRAM = Program(
    "codex",
    sessions=(
        FileFormat(
            "codex",
            "a Codex rollout",
            f"{__name__}.files:CODEX",
            (shows("payload", type=TYPES),),
            precedence=-1,
        ),
    ),
    foreign=(Foreign("a call in a log of the first Codex CLI", shows("type", "function", "arguments")),),
)
