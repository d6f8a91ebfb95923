"""Launch of Codex behind a tap: it reads its base URL only from its configuration."""

from __future__ import annotations

import json

from stenolog.projections.programs import TapLaunch


def begin(given: TapLaunch) -> list[str]:
    """Return the command with the option that names the tap."""
    option = f"openai_base_url={json.dumps(f'{given.base}/openai')}"
    return [*given.words[: given.at + 1], "-c", option, *given.words[given.at + 1 :]]
