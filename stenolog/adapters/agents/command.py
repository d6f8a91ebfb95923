"""Command line of an agent: its arguments, inherited variables, and hidden values."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from stenolog.adapters.providers.failures import hide
from stenolog.domain.errors import CallerError
from stenolog.projections.programs import PROGRAMS

PROMPT, SESSION = "{prompt}", "{session}"


@dataclass(frozen=True, repr=False)
class Command:
    """Program with its arguments. `env` is added to the inherited environment; `cwd` is its folder.

    It inherits the variables in `inherited`, and those that match the patterns of `inherit`.
    """

    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    inherit: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        given: Sequence[str] | str,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        inherit: Sequence[str] = (),
    ) -> Command:
        """Return a command from its words, or from a line split as a shell would."""
        args = tuple(shlex.split(given) if isinstance(given, str) else given)
        if not args:
            raise CallerError("expected a command, found none")
        if isinstance(inherit, str):
            raise CallerError(f"inherit: expected a list of names, such as ['AWS_*'], found {inherit!r}")
        return cls(args, dict(env or {}), None if cwd is None else os.fspath(cwd), tuple(inherit))

    def __repr__(self) -> str:
        return f"<command {self.name}>"

    @property
    def name(self) -> str:
        """The program's name, without its folder."""
        return Path(self.args[0]).name

    @property
    def environment(self) -> dict[str, str]:
        """All of its environment."""
        return {**inherited(os.environ, self.args, self.inherit), **self.env}

    @property
    def takes_prompt(self) -> bool:
        """True if the prompt is one of the command's arguments."""
        return PROMPT in self.args

    def with_options(self, *options: Sequence[str]) -> Command:
        """Return the command with options added, unless it has them: before the prompt, or at the end."""
        place = self.args.index(PROMPT) if self.takes_prompt else len(self.args)
        missing = [word for each in options if each and each[0] not in self.args for word in each]
        return replace(self, args=(*self.args[:place], *missing, *self.args[place:]))

    def arguments(self, prompt: str = "", session: str = "", resume: Sequence[str] = ()) -> list[str]:
        """Return the arguments, with those that resume the session, if any.

        Raises `CallerError` for a session that the program would read as an option: it comes from the log.
        """
        if session.startswith("-"):
            raise CallerError(
                f"expected the id of a session, found {session!r:.80}, which reads as an option"
            )
        resuming = [word.replace(SESSION, session) for word in resume] if session else []
        args = self.with_options(resuming).args
        return [prompt if word == PROMPT else word for word in args]

    def hide(self, text: str) -> str:
        """Return the text without secret values of the environment.

        Those are all values given for the command, and inherited ones under names such as `…_API_KEY`.
        """
        return hide(text, self.env.values())


COMMON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "TZ", "TMPDIR", "TMP", "TEMP"),
    *("LANG", "LANGUAGE", "LC_*", "XDG_*", "SSL_CERT*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NODE_ENV", "NODE_OPTIONS", "NODE_PATH", "NODE_EXTRA_CA_CERTS", "NODE_USE_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SYSTEMROOT", "APPDATA", "LOCALAPPDATA"),
)
"""Names that every program inherits, as patterns without regard to case."""
NEVER = ("*BOT_TOKEN*", "*TELEGRAM*")
"""Names that no pattern matches: the tokens of chats. A name written out does."""


def inherited(
    environment: Mapping[str, str], command: Sequence[str], inherit: Sequence[str] = ()
) -> dict[str, str]:
    """Return the variables that a command inherits; `inherit` has more names and patterns."""
    known = (each for each in PROGRAMS.values() if any(map(each.is_named_in, command)))
    patterns = [*COMMON, *(name for each in known for name in each.variables)]
    named = {name for name in inherit if name in environment}
    return {
        name: value
        for name, value in environment.items()
        if name in named
        or (
            (_matches(name.upper(), patterns) or _matches(name, inherit))
            and not _matches(name.upper(), NEVER)
        )
    }


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
