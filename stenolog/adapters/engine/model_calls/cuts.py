"""The extent to which a request was cut: for warnings of it, and for summaries."""

from __future__ import annotations

from stenolog.domain.lanes.state import State
from stenolog.projections.messages.rules import CUTS
from stenolog.projections.requests import Request


def last_cut(request: Request, context_from: int) -> int:
    """Return the last position that a window or a budget left out of a request; 0: there is none.

    What stands before `context_from` is out of context, whatever was cut there earlier.
    """
    cut = (run.last for run in request.omissions if run.rule in CUTS and run.last >= context_from)
    return max(cut, default=0)


def last_summarised(state: State, where: str) -> int:
    """Return the last position that a summary for a lane covers; 0: there is none."""
    return max((summary.last for summary in state.summaries if summary.is_for(where)), default=0)
