"""Real agents from npm, installed once per machine, with a local provider behind them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stenolog.models import Model, Timeouts
from tests import npm

HERE = Path(__file__).parent / "npm"
LINK = ("node", "node_modules/@anthropic-ai/claude-code/install.cjs")
"""What npm would run after the install: it puts the program in its place."""
WANTED = "STENOLOG_REAL_AGENTS"
AGENTS = ("claude", "claude-long", "codex", "acp")
TIMES = Timeouts(connect=60.0, first_token=60.0, idle=60.0, total=120.0)


def installed() -> Path:
    """Return the folder with the programs. They are large, so outside CI somebody has to ask for them."""
    if not {"CI", WANTED} & os.environ.keys():
        pytest.skip(f"real agents are 930 MB from npm: set {WANTED}=1 to install and test them")
    return npm.installed(HERE, "real agents", then=LINK) / "node_modules" / ".bin"


def settled(home: Path, url: str) -> dict[str, str]:
    """Return the environment of agents that live in a folder and ask this provider."""
    home.mkdir(exist_ok=True)
    codex = home / ".codex"
    codex.mkdir(exist_ok=True)
    (codex / "config.toml").write_text(
        'model = "fake-1"\nmodel_provider = "fake"\n[model_providers.fake]\nname = "fake"\n'
        f'base_url = "{url}/v1"\nwire_api = "responses"\n'
    )
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(
        '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'
    )
    (home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
    return {
        "HOME": str(home),
        "CODEX_HOME": str(codex),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-none-0123456789",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "none-0123456789",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_EXECUTABLE": str(installed() / "claude"),
    }


def model(agent: str, home: Path, url: str, **options: Any) -> Model:
    """Return a model that is one of the agents."""
    from stenolog.models import ACP, CommandLine

    work, more = home / "work", options.pop("more", ())
    env = settled(home, url)
    work.mkdir(exist_ok=True)
    given: dict[str, Any] = {"env": env, "cwd": work, "timeouts": TIMES} | options
    programs = installed()
    claude = [str(programs / "claude"), "-p", "--dangerously-skip-permissions"]
    codex = [str(programs / "codex"), "exec", "--skip-git-repo-check"]
    match agent:
        case "claude":
            return CommandLine([*claude, *more], format="claude-code", **given)
        case "claude-long":
            return CommandLine(claude, format="claude-code", mode="long-lived", **given)
        case "codex":
            command = [*codex, "--dangerously-bypass-approvals-and-sandbox"]
            return CommandLine(command, format="codex", **given)
        case "gemini":
            command = [str(programs / "gemini"), "--yolo", "--skip-trust", "-m", "gemini-2.5-pro"]
            return CommandLine(command, format="gemini-cli", **given)
        case _:
            return ACP([str(programs / "claude-agent-acp")], permit=lambda _: True, **given)
