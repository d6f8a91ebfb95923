"""What a lane's tokens have cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from stenolog.domain.limits import Tokens
from stenolog.projections.analysis.budget import PRICES, Price, price_of

Prices: TypeAlias = Iterable[Price]


def cost(tokens: Mapping[str, Tokens], prices: Prices) -> int | None:
    """In micro-dollars; None where a model has no price."""
    total = 0.0
    for model, used in tokens.items():
        price = price_of(model, prices)
        if price is None:
            return None
        fresh = used.input - used.cache_read
        total += fresh * price.input + used.cache_read * price.cached + used.output * price.output
    return round(total)


__all__ = ["PRICES", "Prices", "cost"]
