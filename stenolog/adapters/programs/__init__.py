"""Agent programs, each with a package, registered by name and imported when needed."""

from stenolog.domain.base.registry import Reference
from stenolog.projections.programs import PROGRAMS


def register() -> None:
    """Register the programs that ship with stenolog, and its own files."""
    for room in ("claude_code", "codex", "gemini_cli", "qwen_code"):
        PROGRAMS.add_late(room.replace("_", "-"), Reference(f"{__name__}.{room}", "PROGRAM"))
    PROGRAMS.add_late("stenolog", Reference("stenolog.adapters.importers.own.own_files", "PROGRAM"))
