"""Teams described in TOML files; `load` reads one. See docs/how-to/team-file.md."""

from .load import TeamFile, load

__all__ = ["TeamFile", "load"]
