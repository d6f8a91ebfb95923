"""Prices of models, and the cost of the tokens that were used.

Money is counted in whole micro-dollars, so that sums are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from stenolog.domain.errors import InvalidEventError
from stenolog.domain.lanes.limits import MICRO_PER_USD, Tokens


class Price(NamedTuple):
    """Price of a model, in USD per million tokens. `model` is a pattern such as `gpt-5*`.

    `cached` is the price of input that was read from the provider's cache, `written` that of input which was
    written to it; None: as other input. `written_hour` is that of input which the cache keeps for an hour;
    None: 1.6 times `written`, as at Anthropic.
    """

    model: str
    input: float
    cached: float
    output: float
    written: float | None = None
    written_hour: float | None = None

    @property
    def writes(self) -> tuple[float, float]:
        """The prices of input that the cache keeps for its usual time, and for an hour."""
        if self.written is None:
            return self.input, self.input if self.written_hour is None else self.written_hour
        return self.written, self.written * HOUR if self.written_hour is None else self.written_hour


HOUR = 1.6
"""Price of input that Anthropic keeps for an hour, by that of what it keeps for five minutes: 2 to 1.25."""
Lookup: TypeAlias = Callable[[str], Price | None]
"""Finds the price of a model by its name."""
Prices: TypeAlias = Sequence[Price | Lookup]
"""A table of prices: the first whose pattern fits, or that finds one, is taken."""
PRICES_AS_OF = "2025-11"
DATED = ("", "-20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]", "-20[0-9][0-9][0-1][0-9][0-3][0-9]")
"""The ends of the names under which one model is sold: none, and the dates of OpenAI and of Anthropic."""
PRICES = tuple(
    price._replace(model=price.model + date)
    for price in (
        Price("gpt-5-mini", 0.25, 0.025, 2.0),
        Price("gpt-5", 1.25, 0.125, 10.0),
        Price("claude-haiku-4-5", 1.0, 0.1, 5.0, 1.25),
        Price("claude-sonnet-4", 3.0, 0.3, 15.0, 3.75),
        Price("claude-sonnet-4-5", 3.0, 0.3, 15.0, 3.75),
        Price("claude-opus-4-5", 5.0, 0.5, 25.0, 6.25),
        Price("gemini-2.5-flash", 0.3, 0.03, 2.5),
    )
    for date in DATED
)
"""Examples, as listed at `PRICES_AS_OF`, of exactly these models; give your own."""
KINDS = ("input", "cached", "output", "written", "written_hour")


def price_of(model: str, prices: Prices) -> Price | None:
    """Return the price of the first entry that fits the model."""
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
    """Return the minimal cost of calls, in micro-dollars: by their models' prices, or as they state it.

    `billed` are the tokens of calls that state their cost. A model without a price costs nothing.
    """
    priced = ((price_of(model, prices), used) for model, used in tokens.items())
    total = sum(millionths(price, used) for price, used in priced if price is not None)
    return rounded(total) + sum(used.cost for used in billed)


def rounded(millionths: int) -> int:
    """Return millionths of a micro-dollar as whole micro-dollars."""
    return (millionths + MICRO_PER_USD // 2) // MICRO_PER_USD


def cost(tokens: Mapping[str, Tokens], prices: Prices) -> int | None:
    """Return the cost of several models' tokens, in micro-dollars.

    It is None if a model that was used has no price.
    """
    return None if unpriced(tokens, prices) else known_cost(tokens, prices)


def millionths(price: Price, used: Tokens) -> int:
    """Return the exact cost in millionths of a micro-dollar, for prices of up to six decimals."""
    fresh = max(0, used.input - used.cache_read - used.cache_write)
    rates = (price.input, price.cached, *price.writes, price.output)
    hour = min(used.cache_write_hour, used.cache_write)
    amounts = (fresh, used.cache_read, used.cache_write - hour, hour, used.output)
    return sum(amount * round(rate * MICRO_PER_USD) for amount, rate in zip(amounts, rates, strict=True))


def price_table(given: Any, where: str = "prices") -> tuple[Price, ...]:
    """Return the prices in a mapping by name pattern, in order: the fields of `Price`.

    What is not given of `cached` and `written` costs as `input` does. Raises `InvalidEventError`.
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
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < MICRO_PER_USD:
            raise InvalidEventError(
                f"{where}: {model!r}: {kind}: expected USD per million tokens, found {rate!r}"
            )
    rates = {kind: float(rate) for kind, rate in given.items()}
    fresh = rates.get("input", 0.0)
    cached, output = rates.get("cached", fresh), rates.get("output", 0.0)
    return Price(model, fresh, cached, output, rates.get("written"), rates.get("written_hour"))
