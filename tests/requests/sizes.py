"""Checks of sizes: a request weighs the same on every API but for framing, and one that is sent fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stenolog import Request
from stenolog.projections.formats.readable import pictures
from stenolog.projections.messages.sizes import IMAGE_TOKENS
from stenolog.projections.requests.pipeline.budget import limits

FRAMING = 24
"""Tokens by which a message or a tool may differ between two APIs: frames, notes, placeholders."""
LEFT_BY_API = {
    "fields-not-carried",
    "foreign-reasoning",
    "opaque-not-carried",
    "reasoning-not-carried",
    "trailing-thinking",
}


def uneven(requests: Mapping[str, Request]) -> Iterator[str]:
    """Yield the APIs on which one lane's request weighs more, or less, than framing explains."""
    weights = {api: _words(request) for api, request in requests.items()}
    least = min(weights, key=lambda api: weights[api])
    for api, found in weights.items():
        pieces = max(map(_pieces, (requests[api], requests[least])))
        if found - weights[least] > FRAMING * pieces:
            yield f"size: {found:,} tokens of words on {api}, {weights[least]:,} on {least}"


def oversize(request: Request) -> Iterator[str]:
    """Yield what a request weighs, if it may be sent and exceeds its budget."""
    budget = request.policy.budget
    if budget is not None and request.ready and not request.size.fits(limits(budget)):
        yield f"size: {request.size} of {budget}"


def _words(request: Request) -> int:
    """Return the tokens of a request without its pictures and parameters, with what only its API left out."""
    asked = sum(part.tokens_out for part in request.parts if part.role == "parameters")
    left = sum(run.tokens for run in request.omissions if run.rule in LEFT_BY_API)
    return request.size.tokens - IMAGE_TOKENS * pictures(request.body) - asked + left


def _pieces(request: Request) -> int:
    return len(request.parts) + len(request.body.get("tools", ()))
