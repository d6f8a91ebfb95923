"""What the agents of team.toml may call."""

from __future__ import annotations


def trays(oven: str) -> str:
    """How many trays an oven has."""
    return "4 trays\n12 loaves a tray"


def sell(loaves: int) -> str:
    """Sell loaves."""
    return f"{loaves} sold"
