"""What a lane's tokens have cost."""

from __future__ import annotations

from stenolog.projections.prices import PRICES, Prices, cost

__all__ = ["PRICES", "Prices", "cost"]
