"""Blobs: content kept once by its sha256."""

from __future__ import annotations

import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest

import stenolog
from stenolog import Log
from stenolog.errors import BlobNotFoundError, StoredDataError


def test_a_blob_is_known_by_its_sha256(log: Log) -> None:
    content = bytes(range(256)) * 1000

    sha = log.blobs.put(content)

    assert sha == sha256(content).hexdigest()
    assert log.blobs[sha] == content
    assert log.blobs.get(sha) == content


def test_blobs_are_a_mapping(log: Log) -> None:
    kept = {log.blobs.put(content): content for content in (b"b", b"a", b"")}

    assert dict(log.blobs) == kept
    assert list(log.blobs) == list(kept)
    assert all(sha in log.blobs for sha in kept)


@pytest.mark.parametrize("sha", ["0" * 64, "", "abc", "G" * 64, "A" * 64, "../" * 20, 7])
def test_what_is_no_hash_of_a_blob_is_not_there(log: Log, sha: str) -> None:
    log.blobs.put(b"a")

    assert sha not in log.blobs
    assert log.blobs.get(sha) is None
    with pytest.raises(BlobNotFoundError, match="no blob"):
        log.blobs[sha]


def test_a_missing_blob_is_a_key_error_too_since_blobs_are_a_mapping(log: Log) -> None:
    with pytest.raises(KeyError) as caught:
        log.blobs["0" * 64]
    assert isinstance(caught.value, StoredDataError)
    assert "'" not in str(caught.value)[:1]


def test_a_damaged_blob_is_missing_rather_than_wrong(path: Path) -> None:
    with stenolog.open(path) as log:
        sha = log.blobs.put(b"the truth")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE blobs SET bytes = x'00'")
    connection.close()

    with stenolog.open(path) as log, pytest.raises(BlobNotFoundError, match="damaged"):
        log.blobs[sha]
