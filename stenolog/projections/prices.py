"""Prices of models by patterns of their names, and the cost of tokens.

Money is counted in whole micro-dollars, so that sums are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from stenolog.domain.errors import InvalidEventError
from stenolog.domain.limits import MICRO, Tokens


class Price(NamedTuple):
    """Price of a model, in USD per million tokens. `model` is a pattern such as `gpt-5*`.

    `cached` is the price of input that was read from the provider's cache, `written` that of input which was
    written to it; None: as other input.
    """

    model: str
    input: float
    cached: float
    output: float
    written: float | None = None


Lookup: TypeAlias = Callable[[str], Price | None]
"""Finds the price of a model by its name."""
Prices: TypeAlias = Sequence[Price | Lookup]
"""A table of prices: the first whose pattern fits, or that finds one, is taken."""
PRICES_AS_OF = "2025-11"
PRICES = (
    Price("gpt-5-mini*", 0.25, 0.025, 2.0),
    Price("gpt-5*", 1.25, 0.125, 10.0),
    Price("claude-haiku-4-5*", 1.0, 0.1, 5.0, 1.25),
    Price("claude-sonnet-4*", 3.0, 0.3, 15.0, 3.75),
    Price("claude-opus-4-5*", 5.0, 0.5, 25.0, 6.25),
    Price("gemini-2.5-flash*", 0.3, 0.03, 2.5),
)
"""Examples, as listed at `PRICES_AS_OF`; give your own."""
KINDS = ("input", "cached", "output", "written")


def price_of(model: str, prices: Prices) -> Price | None:
    """The price of the first entry that fits the model."""
    for price in prices:
        if isinstance(price, Price):
            if fnmatchcase(model, price.model):
                return price
        elif found := price(model):
            return found
    return None


def unpriced(tokens: Mapping[str, Tokens], prices: Prices) -> list[str]:
    """Return the models that were used and have no price."""
    return [model for model, used in tokens.items() if any(used) and price_of(model, prices) is None]


def known_cost(tokens: Mapping[str, Tokens], prices: Prices, billed: Iterable[Tokens] = ()) -> int:
    """Return what calls cost at least, in micro-dollars: by their models' prices, or as they state it.

    `billed` are the tokens of calls that state their cost. A model without a price costs nothing.
    """
    priced = ((price_of(model, prices), used) for model, used in tokens.items())
    total = sum(_millionths(price, used) for price, used in priced if price is not None)
    return (total + MICRO // 2) // MICRO + sum(used.cost for used in billed)


def cost(tokens: Mapping[str, Tokens], prices: Prices) -> int | None:
    """Return the cost of several models' tokens, in micro-dollars; None if a model that was used has no
    price."""
    return None if unpriced(tokens, prices) else known_cost(tokens, prices)


def _millionths(price: Price, used: Tokens) -> int:
    """In millionths of a micro-dollar: whole numbers, for prices of up to six decimals."""
    written = price.input if price.written is None else price.written
    fresh = max(0, used.input - used.cache_read - used.cache_write)
    rates = (price.input, price.cached, written, price.output)
    amounts = (fresh, used.cache_read, used.cache_write, used.output)
    return sum(amount * round(rate * MICRO) for amount, rate in zip(amounts, rates, strict=True))


def table(given: Any, where: str = "prices") -> tuple[Price, ...]:
    """The prices of a mapping: `input`, `cached`, `output` and `written` for each pattern of names, in order.

    What is not given of `cached` and `written` costs as `input` does. Raises `InvalidEventError`, which says
    what was expected, what was found, and at which pattern of `where`.
    """
    if not isinstance(given, Mapping):
        raise InvalidEventError(f"{where}: expected an object, found {type(given).__name__}")
    return tuple(_price(where, model, one) for model, one in given.items())


def _price(where: str, model: str, given: Any) -> Price:
    if not isinstance(given, Mapping) or set(given) - set(KINDS):
        raise InvalidEventError(
            f"{where}: {model!r}: expected a table of {', '.join(KINDS)}, found {given!r}"
        )
    for kind, rate in given.items():
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < MICRO:
            raise InvalidEventError(
                f"{where}: {model!r}: {kind}: expected USD per million tokens, found {rate!r}"
            )
    rates = {kind: float(rate) for kind, rate in given.items()}
    fresh = rates.get("input", 0.0)
    return Price(model, fresh, rates.get("cached", fresh), rates.get("output", 0.0), rates.get("written"))
