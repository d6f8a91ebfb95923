"""Tables by name, for programs that attach them without importing their definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stenolog.adapters.plugins.lazy_registry import LazyRegistry

if TYPE_CHECKING:
    from .table import Table

TABLES: LazyRegistry[Table] = LazyRegistry("a table")
"""Every table that a plugin has registered."""
