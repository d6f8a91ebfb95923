"""Typical programs; `docs/how-to/ten-programs.md` counts their lines."""
