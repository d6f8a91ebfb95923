"""The tables of counts on the page about performance, from what the tests limit in `tests/costs.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
PAGE = "reference/performance.md"
COSTS = tomllib.loads((HERE.parent / "tests" / "costs.toml").read_text("utf-8"))
BEGIN, END = "<!-- counts: made by `python docs/generate.py` -->", "<!-- counts: end -->"
APPEND, REQUEST = "append", "request, openai-chat, 1,000 entries"
FLOWS = {
    "import stenolog": "`import stenolog`",
    APPEND: "an append",
    REQUEST: "the next request, 1,000 entries",
    "request, openai-chat, 10,000 entries": "the next request, 10,000 entries",
    "request, first of a process": "the first request, 1,000 entries",
    "team turn": "a team's turn: model, tool, model",
}
KINDS = {"calls": "calls", "statements": "SQL", "rows": "rows", "fsyncs": "fsyncs", "modules": "modules"}
IN = "in "
"""Before the name of a room, in the table of the tests."""


def performance_page() -> str:
    """Return the page with its tables of counts."""
    before, begin, rest = (HERE / PAGE).read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"expected {BEGIN} and {END} in docs/{PAGE}, found only one or none")
    return f"{before}{BEGIN}\n\n{_flows()}\n\n{_rooms()}\n\n{END}{after}"


def _flows() -> str:
    rows = ([title, *(_count(flow, kind) for kind in KINDS)] for flow, title in FLOWS.items())
    return _table(["", *KINDS.values()], rows)


def _rooms() -> str:
    rooms = sorted({name for flow in (APPEND, REQUEST) for name in COSTS[flow] if name.startswith(IN)})
    rows = ([f"`{name.removeprefix(IN)}`", _count(APPEND, name), _count(REQUEST, name)] for name in rooms)
    return _table(["calls in", "an append", "the next request"], rows)


def _count(flow: str, kind: str) -> str:
    """Return a count, that of the first Python if they differ."""
    count = COSTS[flow].get(kind, 0)
    return f"{next(iter(count.values())) if isinstance(count, Mapping) else count:,}"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join((lines[0], f"|---{'|---:' * (len(head) - 1)}|", *lines[1:]))


PAGES = {PAGE: performance_page}
