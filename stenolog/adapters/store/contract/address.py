"""Texts that name a log: a file's path, or an address in PostgreSQL.

An address may hold a password: show it only by `without_password`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from stenolog.domain.errors import InvalidEventError

EXPECTED = "the path of a file, or postgresql://USER@HOST/DATABASE"
_POSTGRES = re.compile(r"postgres(?:ql)?://", re.ASCII | re.IGNORECASE)
# `Path` makes one slash of two.
_ADDRESS = re.compile(r"(postgres(?:ql)?):|([a-z][a-z0-9+.-]+):(?=//)", re.ASCII | re.IGNORECASE)
_USER = re.compile(r"[\w.+-]+")
_QUOTED = re.compile(r"(?:[^%]|%[\da-f]{2})*", re.ASCII | re.IGNORECASE | re.DOTALL)
# Behind a colon only a number, for a password may stand in the place of a port.
_HOST = r"(?:\[[\da-f:.]+\]|[\w.%-]*)(?::\d{1,5})?"
_PLACE = re.compile(rf"{_HOST}(?:,{_HOST})*(?:/[\w.%-]*)?", re.IGNORECASE)
_WORD = re.compile(r"postgres(?:ql)?(?:\+\w+)?:/\S*", re.ASCII | re.IGNORECASE)
_SHOWN = {"host": re.compile(r"[\w./,:-]+"), "port": re.compile(r"[\d,]+"), "schema": re.compile(r"\w{1,63}")}
"""The parameters that messages show, where their values look like these."""


class Parts(NamedTuple):
    """An address, split, and unquoted but for hosts and database, its `place`."""

    kind: str
    user: str
    password: str | None
    place: str
    parameters: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"<Parts of an address at {self.place}>"


def is_address(path: str | os.PathLike[str]) -> bool:
    """Return whether a text is any database's address, not a path."""
    text = os.fspath(path)
    return isinstance(text, str) and _ADDRESS.match(text) is not None


def is_postgres(path: str | os.PathLike[str]) -> bool:
    """Return whether a text is an address in PostgreSQL."""
    return isinstance(path, str) and _POSTGRES.match(path) is not None


def checked(path: str | os.PathLike[str]) -> str:
    """Return a path or address as text. Raises `InvalidEventError` for another kind of address."""
    if is_address(path) and not is_postgres(path):
        kind = "an address as a Path" if isinstance(path, os.PathLike) else "another address"
        raise InvalidEventError(f"expected {EXPECTED}, found {kind}: {without_password(path)}")
    return os.fspath(path)


def split(address: str) -> Parts:
    """Split an address. Raises `InvalidEventError` if it is ambiguous or invalid."""
    found = _ADDRESS.match(address)
    kind = (found[1] or found[2]).lower() if found else ""
    rest = address[found.end() if found else 0 :].removeprefix("/").removeprefix("/")
    before, _, query = rest.partition("?")
    who, _, place = before.rpartition("@")
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    # A password that holds a ? is not told from a parameter that holds an @.
    is_clear = "@" not in query and _PLACE.fullmatch(place) and all(equals for _, equals, _ in pairs)
    if not is_clear or not kind or "\0" in address or "%00" in address:
        raise InvalidEventError(
            f"expected {EXPECTED}, found one that cannot be read: {kind}://…; "
            "in a password or a parameter, ? is written %3F, @ %40, & %26 and % itself %25"
        )
    user, colon, password = who.partition(":")
    parameters = tuple((unquote(name), unquote(value)) for name, _, value in pairs)
    return Parts(kind, _unquoted(user), _unquoted(password) if colon else None, place, parameters)


def _unquoted(text: str) -> str:
    # Who has a password with a % in it may not have known that one has to be written %25.
    return unquote(text) if _QUOTED.fullmatch(text) else text


def without_password(path: str | os.PathLike[str]) -> str:
    """Return a path, or an address without its password; of an ambiguous one, only the kind."""
    text = os.fspath(path)
    found = _ADDRESS.match(text) if isinstance(text, str) else None
    if found is None:
        return text
    try:
        parts = split(text)
    except InvalidEventError:
        return f"{(found[1] or found[2]).lower()}://…"
    who = f"{parts.user if _USER.fullmatch(parts.user) else '…'}@" if parts.user or parts.password else ""
    kept = [f"{name}={value}" for name, value in parts.parameters if _is_shown(name, value)]
    return f"{parts.kind}://{who}{parts.place}{'?' if kept else ''}{'&'.join(kept)}"


def _is_shown(name: str, value: str) -> bool:
    return name in _SHOWN and _SHOWN[name].fullmatch(value) is not None


def hide_passwords(text: str) -> str:
    """Return a message without the passwords of addresses in it.

    After one, the line up to a later @ is left out too: a password may have blanks.
    """
    return "\n".join(map(_without_passwords, text.split("\n")))


def _without_passwords(line: str) -> str:
    for found in _WORD.finditer(line):
        word = found[0].rstrip("'\").,:;")
        if without_password(word) != word:
            begin, end = found.start(), found.start() + len(word)
            last = line.rfind("@", end)
            if last > 0 and " " in line[end:last]:
                end = last + 1 + len(line[last + 1 :].split(" ")[0])
            return f"{line[:begin]}{without_password(line[begin:end])}{_without_passwords(line[end:])}"
    return line


VARIABLE = "STENOLOG_DB"
"""The environment variable that names a database."""


def home_database() -> Path:
    """Return the user's own database, `$XDG_DATA_HOME/stenolog/talks.db`."""
    data = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification has programs ignore a relative path here.
    folder = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return folder / "stenolog" / "talks.db"


def default_database() -> Path | str:
    """Return the default database's path, or its address as text."""
    named = os.environ.get(VARIABLE)
    if named and is_address(named):
        return named
    return Path(named) if named else home_database()


def make_home(path: Path | str) -> None:
    """Create the home database's folder, readable only by its owner; ignore other folders.

    Raises OSError.
    """
    # A folder that is missing elsewhere is more likely a slip in a path.
    if isinstance(path, Path) and path == home_database():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
