"""Blobs: content that is kept once by its sha256, for as long as an entry names it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

from stenolog.domain.errors import BlobNotFoundError

from .recorder import LogRecorder


class Blobs(Mapping[str, bytes]):
    """The blobs of a log by their sha256 (64 hexadecimal digits), as a mapping that can be added to.

    `blobs[sha]` raises `BlobNotFoundError` (a KeyError) for one that is not there, or no longer whole.
    """

    def __init__(self, recorder: LogRecorder) -> None:
        self._recorder = recorder

    def put(self, content: bytes) -> str:
        """Keep the content, unless it is there already; its sha256.

        Put it before each append that names it: a blob that no entry names, and that no living process has
        put for an entry still to come, is removed by `Log.collect`.
        """
        return self.put_all([content])[0]

    def put_all(self, contents: Iterable[bytes]) -> list[str]:
        """Store several blobs in one transaction and return their sha256 names."""
        named = [(sha256(content).hexdigest(), content) for content in contents]
        # Also where the blob is there already: putting it pins it until an entry names it.
        self._recorder.put_blobs(named)
        return [sha for sha, _ in named]

    def __getitem__(self, sha: str) -> bytes:
        content = self._recorder.blob(sha)
        if content is None:
            raise BlobNotFoundError(f"{self._recorder.path}: no blob with the sha256 {sha}")
        # The hash is what the entry says, so bytes that have another one are not what was put.
        if sha256(content).hexdigest() != sha:
            raise BlobNotFoundError(f"{self._recorder.path}: the blob {sha} is damaged")
        return content

    def __contains__(self, sha: object) -> bool:
        return isinstance(sha, str) and self._recorder.has_blob(sha)

    def __iter__(self) -> Iterator[str]:
        return iter(self._recorder.blob_shas())

    def __len__(self) -> int:
        return len(self._recorder.blob_shas())
