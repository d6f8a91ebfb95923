"""Launch of the user's command with base URLs in its environment or arguments.

No file of the user's is touched, and no certificate is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from stenolog.projections.programs import PROGRAMS, TapLaunch, command_name

from .upstreams import Upstream, base_urls

RUNNERS = ("npx", "bunx", "pnpx", "uvx", "pipx", "dlx", "exec", "run", "x", "pnpm", "yarn", "bun", "npm")
"""Words before the name of a program that they run."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Launch(NamedTuple):
    """A command and its environment."""

    command: list[str]
    environment: dict[str, str]


def launch(
    command: Iterable[str], base: str, upstreams: Mapping[str, Upstream], environ: Mapping[str, str]
) -> Launch:
    """Return the command and environment with which it reaches its providers.

    `base` is the tap's URL with its token.
    """
    words = list(command)
    environment = dict(environ)
    known = base_urls()
    for name, (_, variables) in known.items():
        for variable in variables:
            environment[variable] = f"{base}/{name}"
    own = [name for name, (url, _) in known.items() if upstreams[name].origin == url]
    for variable, base_url in (each.first_party for each in PROGRAMS.values() if each.first_party):
        if any(base_url in known[name][1] for name in own):
            environment[variable] = "1"
    for variable in ("NO_PROXY", "no_proxy"):
        hosts = [host for host in environment.get(variable, "").split(",") if host.strip()]
        # A client that sends everything through a proxy would send this there too.
        environment[variable] = ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])
    found = _program(words)
    if found is None:
        return Launch(words, environment)
    at, begin = found

    def is_chained(name: str) -> bool:
        return any(environ.get(variable) for variable in known[name][1])

    return Launch(begin(TapLaunch(words, at, base, environment, environ, is_chained)), environment)


def _program(words: list[str]) -> tuple[int, Callable[[TapLaunch], list[str]]] | None:
    """Return a program's place in a command and its launch, also through npx and its like."""
    launches = [(each, each.launch) for each in PROGRAMS.values() if each.launch is not None]
    for at, word in enumerate(words):
        for program, load in launches:
            if program.is_command(word):
                return at, load()
        if command_name(word) not in RUNNERS and not word.startswith("-"):
            break
    return None
