"""Receipts that came with a file of others: none takes memory or time out of proportion to its size."""

from __future__ import annotations

import json
import zlib
from hashlib import sha256
from typing import Any

import pytest

from stenolog.errors import CallerError, StoredDataError
from stenolog.events import Receipt
from stenolog.projections.requests.as_sent import Patches, sent_body
from stenolog.projections.requests.transport import LARGEST_RAW, Transport

BLOBS: dict[str, bytes] = {}
BODY = {"system": "x" * 1_000_000, "messages": [{"role": "user", "content": "Hi."}]}


def doubled(times: int) -> dict[str, str]:
    """Return a recipe of two recipes, each of two recipes, and so on."""
    recipe: Any = "x"
    for _ in range(times):
        content = json.dumps(recipe).encode()
        BLOBS[name := sha256(content).hexdigest()] = content
        recipe = {"$": "", "text": [{"$": "", "recipe": name}] * 2}
    return {"$": "", "recipe": name}


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"order": ["messages"], "messages": [{"$": "/messages", "all": [0, 10**15]}]}, "100,000 messages"),
        ({"order": ["system"], "front": {"system": doubled(40)}}, "134,217,728 characters"),
        ({"order": ["system"], "front": {"system": [{"$": "/system"}] * 10_000}}, "134,217,728 characters"),
        ({"order": ["system"], "front": {"system": [{"$": ""}] * 10_000}}, "134,217,728 characters"),
        ({"base": 3}, "expected one before 3 as its base, found 3"),
        ({"base": "three"}, "it cannot be read"),
        ({"order": ["messages"], "messages": [{"$": "/messages", "all": "ab"}]}, "it cannot be read"),
        ({"order": ["system"], "front": {"system": {"$": 5}}}, "it does not fit"),
        ({"order": ["system"], "front": {"system": doubled(2_000)}}, "it does not fit|characters"),
    ],
)
def test_a_patch_that_makes_too_much_or_rests_on_itself_is_refused(patch: dict[str, Any], why: str) -> None:
    receipt = Receipt(view=1, sha256="", plan={"patch": patch})

    with pytest.raises(StoredDataError, match=why):
        sent_body(Patches({3: receipt}.get).resolve(receipt), BODY, "messages", BLOBS)


def test_a_raw_request_that_is_packed_beyond_all_measure_is_refused() -> None:
    blobs = {"a": zlib.compress(bytes(LARGEST_RAW + 1)), "b": b"odd"}

    for name, why in (("a", "expected at most"), ("b", "incorrect header")):
        with pytest.raises(CallerError, match=why):
            Transport(style="raw", blob=name).render({}, blobs)
