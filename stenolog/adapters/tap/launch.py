"""Launch of the user's command: base URLs in its environment, or in the form that it understands.

No file of the user's is touched, and no certificate is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from .upstreams import BASE_URLS, Upstream

RUNNERS = ("npx", "bunx", "pnpx", "uvx", "pipx", "dlx", "exec", "run", "x", "pnpm", "yarn", "bun", "npm")
"""Words that stand before the name of a program that they run."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
FIRST_PARTY = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
"""With this Claude Code sends what it sends to its provider itself; else a base URL turns features off."""


class Launch(NamedTuple):
    """A command with its environment."""

    command: list[str]
    environment: dict[str, str]


def launch(
    command: Iterable[str], base: str, upstreams: Mapping[str, Upstream], environ: Mapping[str, str]
) -> Launch:
    """Return the command and the environment with which it reaches its providers at `base`.

    `base` is the tap's URL with its token.
    """
    words = list(command)
    environment = dict(environ)
    for name, (_, variables) in BASE_URLS.items():
        for variable in variables:
            environment[variable] = f"{base}/{name}"
    if upstreams["anthropic"].origin == BASE_URLS["anthropic"][0]:
        environment[FIRST_PARTY] = "1"
    for variable in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in environment.get(variable, "").split(",") if host.strip()]
        # A client that sends everything through a proxy would send this there too.
        environment[variable] = ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])
    at, program = _program(words)
    if program in PROGRAMS:
        return PROGRAMS[program](words, at, base, environment, environ)
    return Launch(words, environment)


def _program(words: list[str]) -> tuple[int, str]:
    """Return the index and the name of the program that a command runs, also through npx and its like."""
    for at, word in enumerate(words):
        name = PurePath(word).name.removesuffix(".js").removesuffix(".exe").partition("@")[0]
        if name in PROGRAMS:
            return at, name
        if name not in RUNNERS and not word.startswith("-"):
            break
    return 0, ""


def _codex(words: list[str], at: int, base: str, environment: dict[str, str], _: Mapping[str, str]) -> Launch:
    """Codex reads its base URL from its configuration alone."""
    option = f"openai_base_url={json.dumps(f'{base}/openai')}"
    return Launch([*words[: at + 1], "-c", option, *words[at + 1 :]], environment)


def _opencode(
    words: list[str], _at: int, base: str, environment: dict[str, str], environ: Mapping[str, str]
) -> Launch:
    """Opencode takes base URLs with their version, as options of a provider."""
    suffixes = {"anthropic": ("anthropic", "/v1"), "openai": ("openai", ""), "google": ("gemini", "/v1beta")}
    providers = {}
    for provider, (name, suffix) in suffixes.items():
        # A base URL that was in the environment has its version already.
        chained = any(environ.get(variable) for variable in BASE_URLS[name][1])
        providers[provider] = {"options": {"baseURL": f"{base}/{name}{'' if chained else suffix}"}}
    try:
        config = json.loads(environ.get("OPENCODE_CONFIG_CONTENT") or "{}")
    except ValueError:
        return Launch(words, environment)  # opencode itself names the error
    environment["OPENCODE_CONFIG_CONTENT"] = json.dumps(_merged(config, {"provider": providers}))
    return Launch(words, environment)


def _merged(config: Any, more: Any) -> Any:
    """Return nested objects merged; `more` wins."""
    if not isinstance(config, dict) or not isinstance(more, dict):
        return more
    return {**config, **{name: _merged(config.get(name), value) for name, value in more.items()}}


PROGRAMS: dict[str, Callable[[list[str], int, str, dict[str, str], Mapping[str, str]], Launch]] = {
    "codex": _codex,
    "opencode": _opencode,
}
"""Programs for which the environment alone is not enough."""
