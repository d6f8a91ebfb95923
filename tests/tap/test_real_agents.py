"""Real agents run behind a tap as they are: no file is touched, and their requests go through it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.provider import Provider
from tests.agents.real import installed
from tests.tap.test_tap_command import ROOT

pytestmark = pytest.mark.slow
COMMANDS = {
    "claude": ["-p", "Say hi", "--dangerously-skip-permissions"],
    "codex": ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Say hi"],
}


@pytest.fixture
def provider() -> Iterator[Provider]:
    running = Provider()
    yield running
    running.shutdown()
    running.server_close()


def environment(home: Path) -> dict[str, str]:
    """Return the environment of agents that were never set up."""
    (home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY"), "sk-ant-none-0123456789")
    return {
        **{name: value for name, value in os.environ.items() if not name.endswith("_BASE_URL")},
        **keys,
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


@pytest.mark.parametrize("agent", COMMANDS)
def test_an_agent_behind_a_tap_gets_its_answer(tmp_path: Path, provider: Provider, agent: str) -> None:
    upstreams = [f"--upstream=anthropic={provider.url}", f"--upstream=openai={provider.url}/v1"]
    words = [str(installed() / agent), *COMMANDS[agent]]
    ran = subprocess.run(
        [sys.executable, "-m", "stenolog", "tap", "--db", str(tmp_path / "a.db"), *upstreams, "--", *words],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (ran.returncode, ran.stdout.strip()) == (0, "done"), ran.stderr
    assert not (tmp_path / "a-tap").exists()
