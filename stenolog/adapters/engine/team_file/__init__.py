"""Teams described in TOML files; `load` reads one, `load_card` a card. See docs/how-to/team-file.md."""

from .card import load_card
from .load import TeamFile, load

__all__ = ["TeamFile", "load", "load_card"]
