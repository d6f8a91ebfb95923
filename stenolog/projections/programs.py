"""Agent programs, and formats of files, as values: all that must be known before their rooms are imported.

PI = FileFormat("pi", "a pi session", "my_package.pi:PI", (shows("id", "cwd", type="session"),))
PROGRAMS.add("pi", Program("pi", sessions=(PI,)))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from stenolog.domain.base.registry import LateRegistry


class Signature(NamedTuple):
    """Facts that a file of a format shows at its beginning, compared without importing its reader.

    A JSON value shows `keys` if an object has them all, in each pair of `inner` a field with a key, and in
    each field of `values` one of these texts: the value itself, an item of a list, or of the lists `inside`
    it. `texts` asks for a text among the items. With `whole` only a document shows it, and no record on a
    line. `tables` of an SQLite database have at least these columns; the name "" is any table's. `begins`
    are a file's first bytes, `words` are in a text that is no JSON, `beside` are suffixes of a file next to
    it, and `folder` patterns of files in a folder.
    """

    keys: frozenset[str] = frozenset()
    inner: tuple[tuple[str, str], ...] = ()
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()
    inside: tuple[str, ...] = ()
    whole: bool = False
    texts: bool = False
    tables: Mapping[str, frozenset[str]] = {}
    begins: bytes = b""
    words: tuple[bytes, ...] = ()
    beside: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()

    @property
    def is_of_start(self) -> bool:
        """True if it is compared with the beginning of a file, before its values are read."""
        return bool(self.tables or self.begins or self.words or self.beside)

    def fits(self, value: object, *, whole: bool = False) -> bool:
        """Return whether a JSON value shows this: a document with `whole`, else a record."""
        if self.whole and not whole:
            return False
        if self.texts:
            return any(isinstance(item, str) for item in _items(value, self.inside))
        return bool(self.keys) and any(map(self._fits_object, _items(value, self.inside)))

    def fits_tables(self, tables: Mapping[str, frozenset[str]]) -> bool:
        """Return whether a database with these columns in its tables shows this."""
        return bool(self.tables) and all(
            name in tables and tables[name] >= columns
            if name
            else any(found >= columns for found in tables.values())
            for name, columns in self.tables.items()
        )

    def fits_text(self, first: bytes) -> bool:
        """Return whether a text that begins so shows this."""
        return bool(self.words) and all(word in first for word in self.words)

    def _fits_object(self, item: object) -> bool:
        if not isinstance(item, dict) or not self.keys <= item.keys():
            return False
        if any(not isinstance(item[name], dict) or key not in item[name] for name, key in self.inner):
            return False
        return all(str(item[name]).strip().casefold() in texts for name, texts in self.values)


def _items(value: object, inside: tuple[str, ...]) -> Iterator[object]:
    """Yield the objects and texts of a value: itself, items of lists two deep, and items inside of these."""
    if not isinstance(value, list):
        yield value
        if isinstance(value, dict):
            for name in inside:
                if isinstance(found := value.get(name), list):
                    yield from found
        return
    for item in value:
        if isinstance(item, list):
            yield from item
        else:
            yield from _items(item, inside)


def shows(
    *keys: str, inside: tuple[str, ...] = (), whole: bool = False, **values: str | tuple[str, ...]
) -> Signature:
    """Return the signature of an object with these keys, and in these fields a text, or one of several.

    `"message.parts"` is a field with a key.
    """
    pairs = [(name, key) for name, dot, key in (each.partition(".") for each in keys) if dot]
    names = (each.partition(".")[0] for each in keys)
    texts = tuple((name, (one,) if isinstance(one, str) else one) for name, one in values.items())
    return Signature(frozenset((*names, *values)), tuple(pairs), texts, inside, whole)


class Foreign(NamedTuple):
    """A format that has no importer: its title in messages, and what a record of it shows.

    With `is_stream` one record is enough to refuse a file. `folder` names the folder of which a file is a
    piece, and with which it is imported.
    """

    title: str
    signature: Signature
    is_stream: bool = False
    folder: str = ""


class FileFormat(NamedTuple):
    """A format of files: its name, its title in messages ("a pi session"), and its importer by reference.

    `importer` is `module:attribute`, and is imported for a file that shows one of the `signatures`; a
    signature by tables decides alone. Of several formats that take a file the one of the highest
    `precedence` does. In a folder, files whose names end with one of the `suffixes` are looked at too, even
    hidden ones; those that end with one of `beside` are passed over, for they are read with a session or hold
    none.
    """

    name: str
    title: str
    importer: str
    signatures: tuple[Signature, ...]
    precedence: int = 0
    suffixes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


class SubAgentFiles(NamedTuple):
    """Names of the files of sub-agents, and of the notes on them.

    Files with the `prefix` come after others. Of these, those with less in the field `depth` of the note come
    first. A note has the `suffix` in place of its file's `.jsonl`. While an agent works, its note is at
    `place` below the folder that the variable `home` names, or that is called `usual` in the user's. `fields`
    of a note are its type, its task, and the id of the call that began it.
    """

    prefix: str
    suffix: str
    depth: str
    home: str
    usual: str
    place: str
    fields: tuple[str, str, str]


class SessionFolder(NamedTuple):
    """A folder of sessions, or a database: `place` below the folder that the variable `home` names.

    Without the variable, that folder is called `usual` in the user's.
    """

    home: str
    usual: str
    place: str


def home_of(files: SessionFolder | SubAgentFiles, environ: Mapping[str, str]) -> str:
    """Return the folder of a program in an environment; it may begin with `~`."""
    return environ.get(files.home) or f"{environ.get('HOME') or '~'}/{files.usual}"


class RequestSigns(NamedTuple):
    """Signs by which a request shows its program, and the ids of its session and agent.

    `client` is the name of the program's agent, `words` are in its User-Agent in small letters. `turn` names
    a header, and a field of `client_metadata`, with JSON on the turn. `session_of` finds a session in
    `metadata.user_id`.
    """

    client: str
    words: tuple[str, ...]
    session_headers: tuple[str, ...] = ()
    agent_headers: tuple[str, ...] = ()
    turn: str = ""
    session_of: Callable[[str], str] | None = None


class TapLaunch(NamedTuple):
    """A command for a tap: its words, the program's place in them, and the tap's URL with its token.

    `environment` is the one that it gets, and may be changed; `environ` is the user's. `is_chained` says
    whether an upstream's base URL was in that.
    """

    words: list[str]
    at: int
    base: str
    environment: dict[str, str]
    environ: Mapping[str, str]
    is_chained: Callable[[str], bool]


class AccountUpstream(NamedTuple):
    """A tap's upstream for users who have logged in, in place of the upstream `instead_of`."""

    name: str
    url: str
    instead_of: str


class Program(NamedTuple):
    """All that is known of an agent program; each field but the name has a default that says "not known".

    `sessions` are the formats of its files, `foreign` those that have no importer, and `folders` where it
    keeps them. `executable` is the name of its command, and `variables` are patterns of those that its login
    needs. `output` returns the form of its lines (a `JsonLines`) as an agent of a team, and `command` the
    words that make it write them, given those of a command line; None if these ask for something else.
    Without `output` it speaks plain text.
    `requests` are signs of its requests, and `wrapped` patterns of the beginnings of texts that it adds to a
    user's messages. `launch` loads a function that returns the words of its command for a tap, if variables
    with base URLs are not enough. `first_party` are a variable that it gets if the base URL of another, the
    second, is the provider's own. `account` is where requests go that name a user's account. `api` loads the
    name of the API that it speaks, `exporter` the `Exporter` of sessions that it goes on with. `failed` is a
    pattern of the beginning of an output that states a failure: its files have no other place for it.
    """

    name: str
    sessions: tuple[FileFormat, ...] = ()
    foreign: tuple[Foreign, ...] = ()
    folders: tuple[SessionFolder, ...] = ()
    sub_agents: SubAgentFiles | None = None
    executable: str = ""
    variables: tuple[str, ...] = ()
    output: Callable[[], Any] | None = None
    command: Callable[[list[str]], list[str] | None] = list
    requests: RequestSigns | None = None
    wrapped: tuple[str, ...] = ()
    launch: Callable[[], Callable[[TapLaunch], list[str]]] | None = None
    first_party: tuple[str, str] | None = None
    account: AccountUpstream | None = None
    api: Callable[[], str] | None = None
    exporter: Callable[[], Any] | None = None
    failed: str = ""

    def is_command(self, word: str) -> bool:
        """Return whether a word of a command is the program itself."""
        return bool(self.executable) and command_name(word) == self.executable

    def is_named_in(self, word: str) -> bool:
        """Return whether a word of a command names the program, or an adapter for it."""
        bounded = rf"(?<![a-z0-9]){re.escape(self.executable)}(?![a-z0-9])"
        return bool(self.executable) and bool(re.search(bounded, command_name(word).lower()))


def command_name(word: str) -> str:
    """Return a command's name without its folder, its suffix and its version."""
    return word.rpartition("/")[2].removesuffix(".js").removesuffix(".exe").partition("@")[0]


PROGRAMS: LateRegistry[Program] = LateRegistry("an agent program")
"""Programs, and frameworks whose files are imported, by their names."""
