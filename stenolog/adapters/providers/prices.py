"""Prices of models: those of `genai-prices` where it is installed, else examples, and those of a file.

    Team(agents, prices=(Price("my-model", 1.0, 0.1, 4.0), *listed()))

The package is data: it asks no server. Prices change, so a newer version may give another cost.

    ["gpt-5*"]
    input = 1.25    # USD per million tokens; `cached`, `output`, `written` and `written_hour` likewise

The file of a team has such tables too, under `prices`; what is not in it costs what the price list says.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stenolog.domain.errors import InvalidEventError
from stenolog.domain.lanes.limits import MICRO_PER_USD
from stenolog.projections.prices import PRICES, PRICES_AS_OF, Price, Prices, price_table

PACKAGE = "genai-prices"
ROUTED = "openrouter"
"""The provider whose price list has names with a slash, such as `openai/gpt-5`."""


def listed() -> Prices:
    """Return the prices of all known models: `genai-prices` is read at the first lookup."""
    return PRICES if are_examples() else (_of_package,)


def source() -> str:
    """Return, in words, the listed prices' origin, and how to get current ones."""
    if are_examples():
        return f"example prices of {PRICES_AS_OF} (current ones: `pip install 'stenolog[prices]'`)"
    from importlib.metadata import version

    return f"prices of {PACKAGE} {version(PACKAGE)}"


def are_examples() -> bool:
    """Return whether the listed prices are only examples."""
    return not _is_installed()


@lru_cache(maxsize=1)
def _is_installed() -> bool:
    # Its version would be read by the parser of e-mails, which takes longer than a list.
    spec = find_spec(PACKAGE.replace("-", "_"))
    return spec is not None and spec.origin is not None  # a folder of that name has none


@lru_cache(maxsize=1_024)
def _of_package(model: str) -> Price | None:
    """Return the package's price; None if it does not know the model."""
    from genai_prices import Usage, calc_price

    # The tokens of many calls are added up here, so what a long context costs more is not counted.
    try:
        rates = calc_price(
            Usage(input_tokens=1, output_tokens=1),
            model,
            provider_id=ROUTED if "/" in model else None,
            genai_request_timestamp=datetime.now(UTC),
        ).model_price
    except LookupError:
        return None
    fresh, output = _usd(rates.input_mtok), _usd(rates.output_mtok)
    if fresh is None or output is None:
        return None
    cached, written = _usd(rates.cache_read_mtok), _usd(rates.cache_write_mtok)
    # Releases before 0.2 do not have this price.
    hour = _usd(getattr(rates, "cache_write_1h_mtok", None))
    return Price(model, fresh, fresh if cached is None else cached, output, written, hour)


def _usd(rate: Any) -> float | None:
    """Return USD per million tokens, the first of a tiered rate."""
    rate = getattr(rate, "base", rate)
    return float(rate) if isinstance(rate, Decimal | int | float) else None


def prices_of(file: Path | None) -> Prices:
    """Return a file's prices in order; the price list's if it has none.

    Raises `InvalidEventError` with what was expected and where.
    """
    if file is None:
        return listed()
    import tomllib

    text = file.read_text(encoding="utf-8")
    try:
        given: Any = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise InvalidEventError(f"{file}: {error}") from None
    if isinstance(given, dict) and "agents" in given:
        return (*price_table(given.get("prices", {}), f"{file}: prices"), *listed())
    return price_table(given, str(file))


def usd(micro: int) -> str:
    """Return micro-dollars in dollars, with four places below one dollar."""
    return f"{micro / MICRO_PER_USD:,.2f}" if micro >= MICRO_PER_USD else f"{micro / MICRO_PER_USD:.4f}"
