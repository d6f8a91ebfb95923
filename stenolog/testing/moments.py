"""Check of a moment that was exported as a test."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.domain.errors import CallerError
from stenolog.projections.moments.check import in_words, moment_difference


def check_moment(
    moment: Mapping[str, Any],
    entries: str,
    request: str,
    *,
    blobs: Mapping[str, str] | None = None,
    fields: Mapping[str, str] | None = None,
) -> None:
    """Build a request from the entries in a file, and compare it with the recorded one.

    `stenolog export TALK --at P --agent A --as pytest` writes such a file. `fields` are JSON pointers into
    the request: of a "live" one only the type is compared; one to "ignore" is skipped.

    Raises `AssertionError` with the first JSON pointer that differs, and the rule and entries of that part;
    `CallerError` for invalid fields or blobs.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    contents = {sha: b64decode(text) for sha, text in (blobs or {}).items()}
    for sha, content in contents.items():
        if (found := sha256(content).hexdigest()) != sha:
            raise CallerError(f"blob {sha[:12]}…: expected that sha256, found {found[:12]}…")
    different = moment_difference(moment, entries, request, blobs=contents, fields=fields, counters=COUNTERS)
    if different is not None:
        raise AssertionError(in_words(moment, different))
