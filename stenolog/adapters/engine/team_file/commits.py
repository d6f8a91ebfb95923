"""Commits of a team file's folder in Git, and the cards of its agents as of each."""

from __future__ import annotations

import json
import sys
import tarfile
from contextlib import redirect_stdout
from io import BytesIO
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory
from typing import NamedTuple

from stenolog.adapters.tools.base import BaseTool
from stenolog.adapters.tools.functions import as_runnables
from stenolog.domain.card import AgentCard
from stenolog.domain.codec import REGISTRY
from stenolog.domain.errors import CallerError
from stenolog.domain.events import ModeSwitch

from .load import load

FORMAT = "--format=%H%x00%cs%x00%s"
PROGRAM = f"import sys; from {__name__} import print_team; print_team(sys.argv[1])"


class Commit(NamedTuple):
    """A commit: its digest, its day and its subject."""

    digest: str
    day: str
    subject: str


class TeamCards(NamedTuple):
    """The cards of a file's agents; those `with_servers` have tools of MCP servers that are not on them."""

    cards: dict[str, AgentCard]
    with_servers: tuple[str, ...] = ()


class TeamHistory:
    """Commits of a team file's folder, and the cards as of each, read when asked for."""

    def __init__(self, file: Path, first: str, last: str) -> None:
        self.file, self.commits = file, commits(file, first, last)
        self._teams: dict[int, TeamCards] = {}

    def team(self, number: int) -> TeamCards:
        """Return the cards as of a commit. Raises `CallerError` if the file cannot be loaded there."""
        if number not in self._teams:
            self._teams[number] = team_at(self.file, self.commits[number].digest)
        return self._teams[number]


def commits(file: Path, first: str, last: str) -> list[Commit]:
    """Return the commit `first` and those after it that changed the file's folder, up to `last`.

    Of a merge only the merge itself. Raises `CallerError` if Git does not know them.
    """
    begin, end = (_digest(file, name) for name in (first, last))
    begun = _git(file, "log", "-1", FORMAT, begin, "--")
    later = _git(file, "log", "--reverse", "--first-parent", FORMAT, f"{begin}..{end}", "--", ".")
    found = [Commit(*row.split("\0", 2)) for row in (begun + later).decode(errors="replace").splitlines()]
    if len(found) < 2:
        raise CallerError(f"{file}: no commit after {first} and up to {last} changes its folder")
    return found


def team_at(file: Path, commit: str) -> TeamCards:
    """Return the cards of a team file as of a commit, with the folder as it was.

    A process of its own reads it, since it imports tools' modules. Raises `CallerError` with the reason if
    the file cannot be loaded there.
    """
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(_git(file, "archive", "--format=tar", commit))) as tar:
            tar.extractall(folder, filter="data")
        arguments = [sys.executable, "-c", PROGRAM, str(Path(folder) / file.name)]
        ran = run(arguments, cwd=folder, capture_output=True, check=False)
    if ran.returncode:
        reason = ran.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise CallerError(f"{file} at {commit[:12]}: {reason.replace(f'{folder}/', '')}")
    made = json.loads(ran.stdout)
    switch = REGISTRY.load(made["topic"], made["event"].encode())
    assert isinstance(switch, ModeSwitch)
    cards = {name: card for name, card in switch.cards.items() if card is not None}
    return TeamCards(cards, tuple(made["with_servers"]))


def print_team(file: str) -> None:
    """Print the cards of a file as JSON, for `team_at`."""
    with redirect_stdout(sys.stderr):  # what its tools' modules print is no part of it
        agents = load(Path(file), keys=False).team.agents
    cards: dict[str, AgentCard | None] = {}
    with_servers: list[str] = []
    for name, agent in agents.items():
        given = as_runnables([*agent.tools, *agent.own_tools])
        tools = [tool.spec for tool in given if isinstance(tool, BaseTool)]
        cards[name] = agent.card(tools)
        if len(tools) < len(given):
            with_servers.append(name)
    topic, event = REGISTRY.dump(ModeSwitch(cards=cards))
    print(json.dumps({"topic": topic, "event": event.decode(), "with_servers": with_servers}))


def _digest(file: Path, name: str) -> str:
    try:
        return _git(file, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}").decode().strip()
    except CallerError as error:
        raise CallerError(f"{error}: {name!r}") from None


def _git(file: Path, *arguments: str) -> bytes:
    try:
        ran = run(["git", *arguments], cwd=file.resolve().parent, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise CallerError(f"{file}: Git is not installed, which has its commits") from error
    if ran.returncode:
        raise CallerError(f"{file}: {ran.stderr.decode(errors='replace').strip()}")
    return ran.stdout
