"""The prices of models, from a file in TOML or JSON: a table for each pattern of names.

["gpt-5*"]
input = 1.25    # USD per million tokens; `cached` and `output` likewise
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from stenolog.domain.errors import InvalidEvent
from stenolog.projections.analysis.budget import Price

KINDS = ("input", "cached", "output")


def prices_of(file: Path) -> tuple[Price, ...]:
    """The prices in a file, in its order. Raises `InvalidEvent`, which says what was expected and where."""
    text = file.read_text(encoding="utf-8")
    try:
        given: Any = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise InvalidEvent(f"{file}: {error}") from None
    if not isinstance(given, dict):
        raise InvalidEvent(f"{file}: expected an object, found {type(given).__name__}")
    return tuple(_price(file, model, table) for model, table in given.items())


def _price(file: Path, model: str, table: Any) -> Price:
    if not isinstance(table, dict) or set(table) - set(KINDS):
        raise InvalidEvent(f"{file}: {model!r}: expected a table of {', '.join(KINDS)}, found {table!r}")
    prices = {kind: table.get(kind, 0) for kind in KINDS}
    for kind, price in prices.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or price < 0:
            raise InvalidEvent(f"{file}: {model!r}: {kind}: expected USD per million tokens, found {price!r}")
    return Price(model, **{kind: float(price) for kind, price in prices.items()})
