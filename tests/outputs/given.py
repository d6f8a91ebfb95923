"""What the outputs are of: aliases, a large text, an artifact."""

from __future__ import annotations

from stenolog import Log
from stenolog.parts import FilePart

RESULTS = "@state/logs/tool-results"
PLAN = "@project/artifacts/docs/plan.md"
LARGE = "".join(f"line {n}, all is well\n" for n in range(5_000))


def artifact(log: Log, content: str | bytes, name: str = PLAN) -> FilePart:
    """Return a file of the project, kept in the log."""
    data = content.encode() if isinstance(content, str) else content
    return FilePart(name=name, media_type="text/markdown", blob=log.blobs.put(data))
