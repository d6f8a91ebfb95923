"""Notes of a client on its sub-agents, beside its transcripts: what an agent is, and which call began it.

On the wire a sub-agent is an id and no more. Claude Code writes `agent-<id>.meta.json` when it begins one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from stenolog.projections.messages.json_fields import as_dict, as_str

from .identity import Identity

LARGEST = 64 * 1024
"""Bytes of a note that are read."""
_SAFE = re.compile(r"[\w-]{1,100}")


class AgentNote(NamedTuple):
    """A note on a sub-agent: its type, what it is to do, and the id of the call that began it."""

    type: str = ""
    description: str = ""
    call: str = ""


Notes: TypeAlias = Callable[[Identity], AgentNote]
NO_NOTE = AgentNote()


def agent_note(identity: Identity, environ: Mapping[str, str] = os.environ) -> AgentNote:
    """Return the note on the sub-agent of an identity; an empty one where its client has written none."""
    session, agent = identity.session, identity.agent
    # Both come from outside, and become a path.
    if identity.client != "claude" or not (_SAFE.fullmatch(session) and _SAFE.fullmatch(agent)):
        return NO_NOTE
    home = environ.get("CLAUDE_CONFIG_DIR") or str(Path(environ.get("HOME", "~")).expanduser() / ".claude")
    for path in (Path(home) / "projects").glob(f"*/{session}/subagents/agent-{agent}.meta.json"):
        try:
            with path.open("rb") as file:
                given = as_dict(json.loads(file.read(LARGEST)))
        except (OSError, ValueError):
            continue
        fields = (as_str(given.get(name)) for name in ("agentType", "description", "toolUseId"))
        return AgentNote(*fields)
    return NO_NOTE
