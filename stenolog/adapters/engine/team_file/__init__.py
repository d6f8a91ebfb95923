"""A team described in a file of TOML: `load` reads it; how it is written is in docs/how-to/team-file.md."""

from .load import TeamFile, load

__all__ = ["TeamFile", "load"]
