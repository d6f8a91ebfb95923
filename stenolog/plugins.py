"""Plugins: loading them, and the registries that they add to.

    from stenolog.plugins import IMPORTERS

    IMPORTERS.add_reference("my-notes", "my_package.notes:NOTES")

A `LazyRegistry` takes references, and imports nothing before its use; so does this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .adapters.plugins import (
    LazyRegistry,
    failed_plugins,
    load_plugin,
    load_plugins,
    named_plugins,
)
from .domain.base.registry import Reference, Registry

if TYPE_CHECKING:
    from .adapters.agents.output_formats import OUTPUT_FORMATS
    from .adapters.conversation.queries.exporters import EXPORTERS
    from .adapters.importers.formats import IMPORTERS, MAPPING_SUFFIXES
    from .adapters.models.base import MODELS
    from .adapters.tables.table import TABLES
    from .apps.chats.channels import CHANNELS
    from .domain.lanes.turns import TURN_RULES, register_turn_rule
    from .domain.policy import HISTORIES, register_history
    from .projections.formats import FORMATS, register_api
    from .projections.programs import (
        PROGRAMS,
        AccountUpstream,
        FileFormat,
        Foreign,
        Program,
        RequestSigns,
        SessionFolder,
        Signature,
        SubAgentFiles,
        TapLaunch,
        shows,
    )
    from .projections.requests.pipeline.attribution import TRANSFORMS, register_transform

_WHERE: dict[str, str] = {
    "AccountUpstream": "projections.programs",
    "CHANNELS": "apps.chats.channels",
    "EXPORTERS": "adapters.conversation.queries.exporters",
    "FORMATS": "projections.formats",
    "HISTORIES": "domain.policy",
    "FileFormat": "projections.programs",
    "Foreign": "projections.programs",
    "IMPORTERS": "adapters.importers.formats",
    "MAPPING_SUFFIXES": "adapters.importers.formats",
    "MODELS": "adapters.models.base",
    "OUTPUT_FORMATS": "adapters.agents.output_formats",
    "PROGRAMS": "projections.programs",
    "Program": "projections.programs",
    "RequestSigns": "projections.programs",
    "SessionFolder": "projections.programs",
    "Signature": "projections.programs",
    "SubAgentFiles": "projections.programs",
    "TapLaunch": "projections.programs",
    "TABLES": "adapters.tables.table",
    "TRANSFORMS": "projections.requests.pipeline.attribution",
    "TURN_RULES": "domain.lanes.turns",
    "register_api": "projections.formats",
    "register_history": "domain.policy",
    "register_transform": "projections.requests.pipeline.attribution",
    "register_turn_rule": "domain.lanes.turns",
    "shows": "projections.programs",
}
"""The names that are imported when they are first asked for, and the modules that they come from."""

__all__: list[str] = [
    "CHANNELS",
    "EXPORTERS",
    "FORMATS",
    "HISTORIES",
    "IMPORTERS",
    "MAPPING_SUFFIXES",
    "MODELS",
    "OUTPUT_FORMATS",
    "PROGRAMS",
    "TABLES",
    "TRANSFORMS",
    "TURN_RULES",
    "AccountUpstream",
    "FileFormat",
    "Foreign",
    "LazyRegistry",
    "Program",
    "Reference",
    "Registry",
    "RequestSigns",
    "SessionFolder",
    "Signature",
    "SubAgentFiles",
    "TapLaunch",
    "failed_plugins",
    "load_plugin",
    "load_plugins",
    "named_plugins",
    "register_api",
    "register_history",
    "register_transform",
    "register_turn_rule",
    "shows",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_WHERE[name]}", __package__), name)
