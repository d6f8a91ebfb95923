"""Launch of opencode behind a tap, with base URLs as provider options."""

from __future__ import annotations

import json
from typing import Any

from stenolog.plugins import TapLaunch

CONFIGURATION = "OPENCODE_CONFIG_CONTENT"
UPSTREAMS = {"anthropic": ("anthropic", "/v1"), "openai": ("openai", ""), "google": ("gemini", "/v1beta")}
"""The upstream of each provider, and the version in its base URL."""


def begin(given: TapLaunch) -> list[str]:
    """Put the base URLs into the configuration; return the command unchanged."""
    providers = {}
    for provider, (name, version) in UPSTREAMS.items():
        # A base URL that was in the environment has its version already.
        url = f"{given.base}/{name}{'' if given.is_chained(name) else version}"
        providers[provider] = {"options": {"baseURL": url}}
    try:
        config = json.loads(given.environ.get(CONFIGURATION) or "{}")
    except ValueError:
        return given.words  # opencode itself names the error
    given.environment[CONFIGURATION] = json.dumps(_merged(config, {"provider": providers}))
    return given.words


def _merged(config: Any, more: Any) -> Any:
    if not isinstance(config, dict) or not isinstance(more, dict):
        return more
    return {**config, **{name: _merged(config.get(name), value) for name, value in more.items()}}
