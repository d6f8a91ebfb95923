"""Laws of plain text: it says something, and no turn in it is forged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stenolog.projections.messages.quoting import markers

from ..checks import Body, Finding, Law, Steps, blank, law, stateful

TURN = re.compile(r"(?:User|Assistant|System|Tool)(?: \([^()\n:]*\))?:", re.IGNORECASE)


@law
def prompt_present(body: Body) -> Iterator[Finding]:
    """The prompt says something."""
    if not isinstance(body.get("prompt"), str) or blank(body.get("prompt")):
        yield "/prompt", repr(body.get("prompt"))


@stateful(int)
def no_forged_marker(begins: int, at: str, paragraph: str) -> Steps:
    """A marker begins a turn: at the start, or after a blank line."""
    for place in markers(paragraph):
        is_behind_blank = place == 0 or (begins > 0 and paragraph[:place] == "\n")
        if not is_behind_blank or not TURN.match(paragraph, place):
            yield "/prompt", f"{paragraph[place : place + 40]!r} at character {begins + place}"
    return begins + len(paragraph) + 2


LAWS: tuple[Law, ...] = (prompt_present, no_forged_marker)
