"""Verdicts: the decisions of checks, and of an output's type, as the log has them.

They are computed at the edge, and recorded in an event's `meta`: a replay takes them from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from .events import AssistantMessage, LlmError, ToolResult, UserMessage

Judged = AssistantMessage | LlmError | ToolResult | UserMessage
E = TypeVar("E", bound=Judged)
Kind = Literal["refused", "replaced", "held", "failed"]
"""Refused: not accepted. Replaced: changed. Held: a person decides. Failed: the check itself failed."""
OWN = "stenolog"


class Verdict(NamedTuple):
    """A decision, who made it ("output", or the name of a check), and the reason."""

    kind: Kind
    by: str
    reason: str = ""

    def on(self, event: E, **more: Any) -> E:
        """Return the event with the verdict in its `meta`, and `more` beside it."""
        return with_own(event, verdict={**self._asdict(), **more})


def joined(verdicts: Sequence[Verdict]) -> Verdict:
    """Return several verdicts of one kind as one."""
    by, why = (", ".join(dict.fromkeys(each)) for each in zip(*(v[1:] for v in verdicts), strict=True))
    return Verdict(verdicts[0].kind, by, why)


def with_own(event: E, **said: Any) -> E:
    """Return the event with data of stenolog's own in its `meta`."""
    return replace(event, meta={**event.meta, OWN: {**own_meta(event), **said}})


def own_meta(event: object) -> dict[str, Any]:
    """Return stenolog's own data in the `meta` of an event."""
    found = getattr(event, "meta", {}).get(OWN)
    return dict(found) if isinstance(found, dict) else {}


def child_of(event: object) -> str:
    """Return the conversation in which a worker made an event's words; "" if none is recorded."""
    match own_meta(event).get("child"):
        case {"conversation": str(name)}:
            return name
        case _:
            return ""


def verdict_of(event: object) -> Verdict | None:
    """Return the verdict on an event; None if there is none."""
    match own_meta(event).get("verdict"):
        case {"kind": kind, "by": str(by), "reason": str(reason)} if kind in get_args(Kind):
            return Verdict(kind, by, reason)
        case _:
            return None


def is_released(event: object) -> bool:
    """Return whether an event is an answer that a person let pass after it was held back."""
    return isinstance(event, AssistantMessage) and "held" in own_meta(event)


def is_refused(event: object) -> bool:
    """Return whether an event is an answer that was not accepted, so that its model was to answer again."""
    if not isinstance(event, LlmError):
        return False
    verdict = verdict_of(event)
    return verdict is not None and verdict.kind == "refused" and bool(event.parts)
