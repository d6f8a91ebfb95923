"""Tool outputs in full, by the aliases that requests show, and as read-only files.

    conversation.outputs["@state/logs/tool-results/8f3a1b2c4d5e6f70.json"]

An alias is looked up in the log, never joined to a path. Folders of a file's path are opened one in another,
without following links: no file can be outside the root.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from stenolog.adapters.store.reading.handle import LogHandle, StreamHandle
from stenolog.domain.entry import Entry
from stenolog.domain.errors import (
    BlobNotFoundError,
    CallerError,
    PositionNotFoundError,
    StoreError,
)
from stenolog.domain.events import ToolResult
from stenolog.domain.policy import TruncateToolOutput
from stenolog.domain.redaction import redacted
from stenolog.projections.messages.sizes import ESTIMATE, Counter
from stenolog.projections.requests.pipeline import truncation
from stenolog.projections.requests.pipeline.truncation import alias
from stenolog.projections.views.artifacts import ARTIFACTS, artifacts, artifacts_of, is_artifact
from stenolog.projections.views.tool_pairs import ToolCallIndex

from .folds import fold_at, persistent

READ = 3_000
"""The default number of characters to read."""


class Excerpt(NamedTuple):
    """Part of a text, from the character `offset` to `end`, of `total` characters."""

    text: str
    offset: int
    end: int
    total: int

    @property
    def next(self) -> int | None:
        """The offset to go on reading at; None at the end."""
        return self.end if self.end < self.total else None


class Output(NamedTuple):
    """An alias's content: a tool result, or an artifact's last version.

    `position` is the entry's, `name` the tool's, or an artifact's media type. `blob` is the content's sha256;
    without it, `text` has all.
    """

    alias: str
    position: int
    name: str
    blob: str = ""
    text: str = ""


class Outputs(Mapping[str, str]):
    """A conversation's tool results and artifacts by alias.

    `outputs[alias]` raises `CallerError` for an invalid alias (and for content that is not text),
    `PositionNotFoundError` if no entry has it, `BlobNotFoundError` if the content is gone. Iterates over
    results in order, then artifacts.
    """

    def __init__(self, conversation: StreamHandle) -> None:
        self._talk = conversation

    def __getitem__(self, path: str) -> str:
        output = self.find(path)
        content = self.content(output)
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise CallerError(
                f"{path}: expected text in UTF-8, found {len(content):,} bytes of something else "
                f"({output.name or 'no name'}); its blob is {output.blob}"
            ) from None

    def __contains__(self, path: object) -> bool:
        try:
            return self.find(path) is not None
        except CallerError:
            return False

    def get(self, path: str, default: Any = None) -> Any:
        return self[path] if path in self else default  # noqa: SIM401 - this is what `get` is made of

    def __iter__(self) -> Iterator[str]:
        return (output.alias for output in self.listed())

    def __len__(self) -> int:
        return sum(1 for _ in self.listed())

    def listed(self) -> Iterator[Output]:
        """Yield all outputs with an alias; a result without a name has its tool's."""
        calls = ToolCallIndex()
        for entry in self._talk.entries():
            pair = calls.take(entry)
            if isinstance(entry.event, ToolResult):
                output = _output(entry, entry.event)
                called = pair.call.name if pair is not None and pair.call is not None else ""
                yield output._replace(name=output.name or called)
        for name, artifact in fold_at(self._talk, persistent(artifacts)).items():
            yield Output(name, *artifact)

    def find(self, path: object) -> Output:
        """Return an alias's output. Raises `CallerError` and `PositionNotFoundError`."""
        id = truncation.entry_of(path) if isinstance(path, str) else None
        is_alias = id is not None or (isinstance(path, str) and is_artifact(path))
        found = None if id is None else self._result(str(path), id)
        found = (
            found
            or (self._artifact(str(path)) if is_alias and id is None else None)
            or self._with_alias(str(path))
        )
        if found is None and not is_alias:
            raise CallerError(
                f"expected {truncation.RESULTS}<entry id>.json or {ARTIFACTS}<name>, found {path!r:.200}"
            )
        if found is None:
            raise PositionNotFoundError(self.no_entry(path))
        return found

    def no_entry(self, path: object) -> str:
        """Return the message for an unknown alias."""
        return f"{self._talk.name!r}: no entry has the alias {path}"

    def content(self, output: Output) -> bytes:
        """Return all of an output. Raises `BlobNotFoundError`."""
        if not output.blob:
            return output.text.encode()
        try:
            return self._talk.log.blobs[output.blob]
        except BlobNotFoundError as error:
            raise BlobNotFoundError(f"{output.alias}: {error}") from None

    def read(self, path: str, offset: int = 0, limit: int | None = READ) -> Excerpt:
        """Return up to `limit` characters (None: all) from `offset`; `next` is where the rest begins.

        Raises as `outputs[path]`, and `CallerError` for an offset after the end.
        """
        text = self[path]
        if not 0 <= offset <= len(text):
            raise CallerError(f"{path}: expected an offset from 0 to {len(text)}, found {offset}")
        if limit is not None and limit < 1:
            raise CallerError(f"{path}: expected a limit of at least 1 character, found {limit}")
        most = len(text) if limit is None else min(offset + limit, len(text))
        whole = truncation.cut_before(text, most)
        end = whole if whole > offset else most
        return Excerpt(text[offset:end], offset, end, len(text))

    def write_files(self, root: str | os.PathLike[str]) -> list[str]:
        """Write every output as a read-only file under a root; return the aliases written.

        A file with this content stays, and a new version of an artifact replaces an earlier one. Raises
        `CallerError` if another file is in the way or a link leads out of the root, `BlobNotFoundError` and
        `StoreError`.
        """
        versions: dict[str, set[str]] = {}
        for entry in self._talk.entries():
            for file in artifacts_of(entry):
                versions.setdefault(file.name, set()).add(file.blob)
        return [
            output.alias
            for output in {each.alias: each for each in self.listed()}.values()
            if write_workspace_file(
                Path(root), output.alias, self.content(output), versions.get(output.alias, ())
            )
        ]

    def _result(self, path: str, id: str) -> Output | None:
        if id:
            entry = self._talk.entry_by_id(id)
            return _output(entry, entry.event) if entry and isinstance(entry.event, ToolResult) else None
        results = ((entry, entry.event) for entry in self._talk.entries())
        found = (
            _output(e, said) for e, said in results if isinstance(said, ToolResult) and alias(e.id) == path
        )
        return next(found, None)

    def _with_alias(self, path: str) -> Output | None:
        found = [each for each in self.listed() if each.alias == path]
        return found[-1] if found else None

    def _artifact(self, path: str) -> Output | None:
        found = fold_at(self._talk, persistent(artifacts)).get(path)
        return Output(path, *found) if found else None


def _output(entry: Entry, result: ToolResult) -> Output:
    text = "" if result.blob else result.text
    return Output(
        truncation.given_alias(result) or alias(entry.id), entry.position, result.name, result.blob, text
    )


def store_large(
    log: LogHandle, event: ToolResult, over: int | None = None, counter: Counter = ESTIMATE
) -> ToolResult:
    """Return the result to append for a possibly large one.

    Above `over` tokens (default 1,000) its parts keep a preview; the whole text becomes a blob, which
    `conversation.outputs` reads.
    """
    whole = redacted(event, log.edge.redact) if log.edge.redact else event
    assert isinstance(whole, ToolResult), "it is what it was, but for values"
    return offload_large(whole, log.blobs.put, over, counter)


def offload_large(
    event: ToolResult, put: Callable[[bytes], str], over: int | None = None, counter: Counter = ESTIMATE
) -> ToolResult:
    """Do as `store_large`, with a function that stores bytes and returns their sha256."""
    if event.blob or event.name == truncation.READ_OUTPUT:
        return event
    shorter = truncation.shortened(
        event.text, TruncateToolOutput() if over is None else TruncateToolOutput(over=over), counter
    )
    if shorter is None:
        return event
    return replace(
        event, parts=truncation.with_text(event.parts, shorter.text), blob=put(event.text.encode())
    )


READ_ONLY = 0o400
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_NO_FOLDER = (errno.ELOOP, errno.ENOTDIR)


def write_workspace_file(root: Path, path: str, content: bytes, earlier: Container[str] = ()) -> bool:
    """Write the content at `path` under the root, all or nothing; return False if already there.

    Other content is replaced only if its sha256 is in `earlier`. Raises `CallerError` if it is not, or if the
    path has something other than folders and a file, and `StoreError`.
    """
    if os.open not in os.supports_dir_fd:
        raise StoreError(f"{root}: files are written on POSIX systems alone")
    *folders, name = path.split("/")
    try:
        with _opened(root, folders) as folder:
            existing = _read(folder, name)
            if existing == content:
                return False
            if existing is not None and sha256(existing).hexdigest() not in earlier:
                raise FileExistsError
            _write_file(folder, name, content, replace=existing is not None)
    except FileExistsError:
        raise CallerError(
            f"{root / path}: expected no file, or one that was made here; what stands there is kept"
        ) from None
    except OSError as error:
        if error.errno in _NO_FOLDER:
            raise CallerError(
                f"{root / path}: expected folders, and at their end a file; found a link, or something else"
            ) from None
        raise StoreError(f"{root / path}: {error.strerror or error}") from None
    return True


@contextmanager
def _opened(root: Path, folders: list[str]) -> Iterator[int]:
    root.mkdir(0o700, parents=True, exist_ok=True)
    here = os.open(root, os.O_RDONLY)
    try:
        for name in folders:
            with suppress(FileExistsError):  # a link is there, too; opening it says so
                os.mkdir(name, 0o700, dir_fd=here)
            inner = os.open(name, _FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        yield here
    finally:
        os.close(here)


def _read(folder: int, name: str) -> bytes | None:
    try:
        found = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.ENOTDIR, "not a regular file")
        with open(found, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(found)


def _write_file(folder: int, name: str, content: bytes, *, replace: bool) -> None:
    """Write a file that gets its name once complete; without `replace` never another's."""
    part = f".stenolog-{os.urandom(8).hex()}.part"
    made = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, READ_ONLY, dir_fd=folder)
    try:
        with open(made, "wb") as file:
            file.write(content)
            os.fchmod(made, READ_ONLY)
        if replace:
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            os.link(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
