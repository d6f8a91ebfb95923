"""The price of a call before it is made, and after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stenolog.adapters.models.base import Model
from stenolog.domain.lanes.limits import Tokens
from stenolog.domain.values import Usage
from stenolog.projections.formats import format_of
from stenolog.projections.messages.body_digest import compact
from stenolog.projections.prices import Price, Prices, millionths, price_of, rounded
from stenolog.projections.requests import Request

# More than any provider's model writes in one answer.
MOST_OUTPUT = 131_072
"""Output tokens of a call whose request sets no limit."""
UNBILLED = ("rate_limited", "overloaded", "unauthorized", "invalid_request", "context_length", "budget")
"""Categories of errors that a provider does not bill: it refused the request as a whole."""


def most_output(request: Request) -> int:
    """Return the output tokens that an answer can have at most."""
    names = format_of(request.api.partition("@")[0]).output_limits
    limits = [value for name in names for value in _at(request.body, name.split("/")) if type(value) is int]
    return min(limits) if limits else MOST_OUTPUT


def _at(body: Any, path: list[str]) -> Iterator[Any]:
    for key in path:
        body = body.get(key) if isinstance(body, dict) else None
    yield body


def highest(request: Request, model: Model, prices: Prices) -> int | None:
    """Return the micro-dollars that a call costs at most; None if the model has no price.

    A token is at least a byte of the body, and all of it may be written to the provider's cache.
    """
    if model.charges == "nothing":
        return 0
    if (price := price_of(model.name, prices)) is None:
        return None
    dearest = max(price.input, price.cached, *price.writes)
    size = len(compact(request.body).encode())  # not `request.bytes`, which would be kept for every question
    most = Price(price.model, dearest, dearest, price.output)
    return rounded(millionths(most, Tokens(input=size, output=most_output(request)))) + 1


def likely(request: Request, model: Model, prices: Prices, output: int) -> int | None:
    """Return the micro-dollars that a call costs with so much output, nothing from the cache."""
    if model.charges == "nothing":
        return 0
    if (price := price_of(model.name, prices)) is None:
        return None
    return rounded(millionths(price, Tokens(input=request.tokens, output=output)))


def cost_of(usage: Usage | None, answered_by: str, model: Model, prices: Prices) -> int | None:
    """Return the micro-dollars of a usage, as it states them or by the model's price; None: unknown."""
    if model.charges == "nothing":
        return 0
    if usage is None:
        return None
    if usage.cost is not None:
        return usage.cost
    price = price_of(answered_by, prices) or price_of(model.name, prices)
    return None if price is None else rounded(millionths(price, Tokens().plus(usage)))
