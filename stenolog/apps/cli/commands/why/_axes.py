"""The axes of `bisect`, as options name them: entries, commits of a team file, releases of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from stenolog.apps.cli.arguments.agent import agent_or_only
from stenolog.apps.cli.arguments.lookup import find_conversation
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.terminal import progress
from stenolog.domain.entry import Entry
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import AssistantMessage, LlmError, ModeSwitch, UserMessage

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log
    from stenolog.apps.views.axes import Axis
    from stenolog.projections.analysis.drift import PromptVersion, RoleDrift

KINDS = (ModeSwitch, AssistantMessage, LlmError, UserMessage)
RECORDER = "tap"


class BisectOptions(NamedTuple):
    """The options that choose recorded calls, and two points of an axis."""

    targets: tuple[str, ...] = ()
    agent: str | None = None
    at: str | None = None
    between: tuple[str, str] | None = None
    sample: int | None = None
    answered: bool = False
    """Only calls that were answered, so that another answer can be compared."""


def entries_axis(log: Log, options: BisectOptions) -> Axis:
    """Return the entries before a call's request."""
    from stenolog.apps.views.axes import case_at, default_ends, is_answered, of_entries

    if len(options.targets) > 1 or options.sample:
        raise click.UsageError(
            "expected one conversation; several, and --sample, go with --team or --releases"
        )
    conversation = find_conversation(log, *(options.targets or ("",)))
    head = resolve(conversation, options.at or "@")
    named = agent_or_only(conversation, options.agent, head)
    case = case_at(conversation, named, head if options.at else None)
    if options.answered and not is_answered(case):
        raise InvalidEventError(f"{named} at {case.view}: expected a request that was answered")
    if options.between:
        first, last = (resolve(conversation, word) for word in options.between)
    else:
        first, last = default_ends(conversation, case)
    return of_entries(conversation, case, first, last)


def commits_axis(log: Log, options: BisectOptions, file: Path) -> Axis:
    """Return the commits of a team file, for the calls of its agents."""
    from stenolog.adapters.engine.team_file.commits import TeamHistory
    from stenolog.apps.views.axes import of_commits, recorded_calls

    if options.between is None:
        raise click.UsageError("--team: expected --between COMMIT COMMIT, such as --between v1.2 HEAD")
    history = TeamHistory(file, *options.between)
    agents = set(history.team(len(history.commits) - 1).cards)
    if options.agent:
        agents &= {options.agent}
    chosen = _conversations(log, options)
    calls = recorded_calls(
        chosen, {(each.name, agent) for each in chosen for agent in agents}, options.answered
    )
    if not calls:
        raise InvalidEventError(f"no recorded call of an agent of {file} ({', '.join(sorted(agents))})")
    return of_commits(log, history, calls[: options.sample])


def releases_axis(log: Log, options: BisectOptions, client: str) -> Axis:
    """Return the releases of a recorded program, for its calls."""
    from stenolog.apps.views.axes import of_releases, recorded_calls

    chosen = {each.name: each for each in _conversations(log, options)}
    roles = [
        role._replace(agents=tuple(each for each in role.agents if each[0] in chosen))
        for role in recorded_roles(log, client)
        if options.agent is None or options.agent in {agent for _, agent in role.agents}
    ]
    role = next((role for role in roles if role.agents), None)
    if role is None:
        raise InvalidEventError(f"no call of {client!r} was recorded there; stenolog tap records a program")
    role = role._replace(versions=_between(role, options.between))
    calls = recorded_calls((chosen[name] for name in dict(role.agents)), set(role.agents), options.answered)
    return of_releases(log, role, calls[: options.sample])


def _between(role: RoleDrift, between: tuple[str, str] | None) -> tuple[PromptVersion, ...]:
    first, last = (_version(role, word) for word in between) if between else (0, len(role.versions) - 1)
    if first >= last:
        raise InvalidEventError(
            f"--between: expected two releases, the older first; known: {_release_names(role)}"
        )
    return role.versions[first : last + 1]


def _version(role: RoleDrift, word: str) -> int:
    """Return the release of that digest, or of a program of that version."""
    found = [
        nth
        for nth, each in enumerate(role.versions)
        if each.digest.startswith(word) or any(word in (one, one.rpartition("/")[2]) for one in each.programs)
    ]
    if len(found) != 1:
        raise InvalidEventError(
            f"--between: expected a release, found {word!r}, which is {len(found)} of: {_release_names(role)}"
        )
    return found[0]


def _release_names(role: RoleDrift) -> str:
    return ", ".join(f"{each.digest} ({', '.join(each.programs)})" for each in role.versions)


def recorded_roles(log: Log, client: str) -> list[RoleDrift]:
    """Return the roles of a recorded program, with their releases."""
    from stenolog.projections.analysis.drift import drift

    return drift(_recorded(log), client)


def _recorded(log: Log) -> Iterator[tuple[str, Iterable[Entry]]]:
    """Yield the entries of recorded programs' conversations that say what a program sent."""
    from stenolog.adapters.conversation.queries.requests.lanes import origin_of
    from stenolog.adapters.store.reading import reader

    names = log.names(archived=True)
    for name in progress(names, "reading agents", len(names)):
        conversation = log[name]
        origin = origin_of(conversation)
        if origin is not None and origin.system == RECORDER:
            entries = reader.of_kinds(log.recorder, conversation.stream, KINDS, 0, None)
            yield name, (entry for entry in entries if isinstance(entry, Entry))


def _conversations(log: Log, options: BisectOptions) -> Sequence[Conversation]:
    names = options.targets or log.names(archived=True)
    return [find_conversation(log, name) for name in names]
