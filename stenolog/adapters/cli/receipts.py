"""Output of `verify --requests`: counts of identical, different and unprovable requests, with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .lines import TextLine, line
from .result import Diagnostic
from .words import counted

if TYPE_CHECKING:
    from stenolog.adapters.verify.receipts import Proved

DIFFERS, NOT_PROVABLE = "request-differs", "request-not-provable"
TOLD = 5
"""So many requests of a conversation that differ are told one by one: the first has the cause, and an edit
shows in all that come after it."""


def request_data(proved: Sequence[Proved]) -> dict[str, Any]:
    """Return the number of requests that are the same, and each one that is not."""
    found = [(conversation.conversation, proof) for conversation in proved for proof in conversation.proofs]
    return {
        "same": sum(proof.outcome == "same" for _, proof in found),
        **{
            outcome: [
                {"conversation": name, **proof._asdict()} for name, proof in found if proof.outcome == outcome
            ]
            for outcome in ("differs", "not-provable")
        },
    }


def request_notes(proved: Sequence[Proved], *, strict: bool) -> Iterator[Diagnostic]:
    """The first requests that differ; those that cannot be proved together, by what is missing."""
    for conversation in proved:
        differ = [proof for proof in conversation.proofs if proof.outcome == "differs"]
        for proof in differ[:TOLD]:
            what = f"the request of {proof.lane} at {proof.view} on {proof.api} differs: {proof.reason}"
            where = (conversation.conversation, proof.position)
            yield Diagnostic("error", DIFFERS, f"{where[0]!r} at {where[1]}: {what}", *where)
        if len(differ) > TOLD:
            message = f"{conversation.conversation!r}: {len(differ) - TOLD} more differ; --json lists them"
            yield Diagnostic("error", DIFFERS, message, conversation.conversation)
        reasons = Counter(proof.reason for proof in conversation.proofs if proof.outcome == "not-provable")
        for reason, number in sorted(reasons.items()):
            message = f"{conversation.conversation!r}: {number} not provable: {reason}"
            yield Diagnostic("error" if strict else "note", NOT_PROVABLE, message, conversation.conversation)


def request_line(data: dict[str, Any], *, failed: bool) -> TextLine:
    """212 requests: 210 same, 1 differs, 1 not provable."""
    same, differs, unproved = data["same"], len(data["differs"]), len(data["not-provable"])
    if not same + differs + unproved:
        return line(("· ", "cyan"), "no request has a receipt, so there is none to build again")
    mark = ("✗ ", "red") if failed else ("✓ ", "green")
    total = counted(same + differs + unproved, "request")
    return line(mark, f"{total}: {same:,} same, {differs:,} differs, {unproved:,} not provable")
