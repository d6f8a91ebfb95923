"""The prices of models, from a file in TOML or JSON: a table for each pattern of names.

["gpt-5*"]
input = 1.25    # USD per million tokens; `cached`, `output` and `written` likewise

The file of a team has such tables too, under `prices`; what is not in it costs what the price list says.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from stenolog.adapters.providers.prices import listed
from stenolog.domain.errors import InvalidEventError
from stenolog.projections.prices import Prices, table


def prices_of(file: Path | None) -> Prices:
    """The prices in a file, in its order; those of the price list where there is none.

    Raises `InvalidEventError`, which says what was expected and where.
    """
    if file is None:
        return listed()
    text = file.read_text(encoding="utf-8")
    try:
        given: Any = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise InvalidEventError(f"{file}: {error}") from None
    if isinstance(given, dict) and "agents" in given:
        return (*table(given.get("prices", {}), f"{file}: prices"), *listed())
    return table(given, str(file))
