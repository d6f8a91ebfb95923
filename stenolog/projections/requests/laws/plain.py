"""The laws of the plain wire: our own, for no provider enforces any."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stenolog.projections.requests.quoting import markers

from .law import Body, Finding, Law, blank, law

TURN = re.compile(r"(?:User|Assistant|System|Tool)(?: \([^()\n:]*\))?:", re.IGNORECASE)


@law
def prompt_present(body: Body) -> Iterator[Finding]:
    """The prompt says something."""
    if not isinstance(body.get("prompt"), str) or blank(body.get("prompt")):
        yield "/prompt", repr(body.get("prompt"))


@law
def no_forged_marker(body: Body) -> Iterator[Finding]:
    """A marker stands only where a turn begins: at the start, or behind a blank line."""
    prompt = str(body.get("prompt"))
    for at in markers(prompt):
        begins = at == 0 or prompt.endswith("\n\n", 0, at)
        if not begins or not TURN.match(prompt, at):
            yield "/prompt", f"{prompt[at : at + 40]!r} at character {at}"


LAWS: tuple[Law, ...] = (prompt_present, no_forged_marker)
