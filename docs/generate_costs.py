"""The table of counts on the page about performance, from what the tests limit in `tests/costs.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
PAGE = "reference/performance.md"
COSTS = tomllib.loads((HERE.parent / "tests" / "costs.toml").read_text("utf-8"))
BEGIN, END = "<!-- counts: made by `python docs/generate.py` -->", "<!-- counts: end -->"
FLOWS = {
    "import stenolog": "`import stenolog`",
    "append": "an append",
    "request, openai-chat, 1,000 entries": "the next request, 1,000 entries",
    "request, openai-chat, 10,000 entries": "the next request, 10,000 entries",
    "request, first of a process": "the first request, 1,000 entries",
    "team turn": "a team's turn: model, tool, model",
    "import of fifteen entries": "an import of 15 entries",
    "tapped exchange": "a tapped exchange",
    "page of a conversation": "a page of 1,000 entries",
}
KINDS = {"calls": "calls", "statements": "SQL", "rows": "rows", "fsyncs": "fsyncs", "modules": "modules"}


def performance_page() -> str:
    """Return the page with its table of counts."""
    before, begin, rest = (HERE / PAGE).read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"expected {BEGIN} and {END} in docs/{PAGE}, found only one or none")
    return f"{before}{BEGIN}\n\n{_flows()}\n\n{END}{after}"


def _flows() -> str:
    rows = [["", *KINDS.values()]]
    rows += [[title, *(_count(flow, kind) for kind in KINDS)] for flow, title in FLOWS.items()]
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join((head, f"|---{'|---:' * len(KINDS)}|", *rest))


def _count(flow: str, kind: str) -> str:
    """Return a count, that of the first Python if they differ."""
    count = COSTS[flow].get(kind, 0)
    return f"{next(iter(count.values())) if isinstance(count, Mapping) else count:,}"


PAGES = {PAGE: performance_page}
