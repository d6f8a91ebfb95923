"""Notes that a program writes on its sub-agents, which on the wire are only ids."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from stenolog.apps.tap.exchanges.identity import Identity
from stenolog.projections.messages.json_fields import as_dict, as_str
from stenolog.projections.programs import PROGRAMS, Program, SubAgentFiles, home_of

LARGEST = 64 * 1024
"""Bytes of a note that are read."""
_SAFE = re.compile(r"[\w-]{1,100}")


class AgentNote(NamedTuple):
    """A sub-agent's type, its task, and the id of the call that began it."""

    type: str = ""
    description: str = ""
    call: str = ""


Notes: TypeAlias = Callable[[Identity], AgentNote]
NO_NOTE = AgentNote()


def agent_note(identity: Identity, environ: Mapping[str, str] = os.environ) -> AgentNote:
    """Return the note on an identity's sub-agent; empty if its program has written none."""
    session, agent = identity.session, identity.agent
    # Both come from outside, and become a path.
    if not (_SAFE.fullmatch(session) and _SAFE.fullmatch(agent)):
        return NO_NOTE
    for files in (each.sub_agents for each in PROGRAMS.values() if _is_of(each, identity.client)):
        if files is not None and (note := _read(files, session, agent, environ)) is not None:
            return note
    return NO_NOTE


def _is_of(program: Program, client: str) -> bool:
    return program.requests is not None and program.requests.client == client


def _read(files: SubAgentFiles, session: str, agent: str, environ: Mapping[str, str]) -> AgentNote | None:
    for path in (
        Path(home_of(files, environ)).expanduser().glob(files.place.format(session=session, agent=agent))
    ):
        try:
            with path.open("rb") as file:
                given = as_dict(json.loads(file.read(LARGEST)))
        except (OSError, ValueError):
            continue
        return AgentNote(*(as_str(given.get(name)) for name in files.fields))
    return None
