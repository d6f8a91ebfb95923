"""Pictures and files that stand in a transcript as base64: bytes to blobs, and back to data URLs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from hashlib import sha256

Blobs = dict[str, bytes]


def keep(data: bytes, blobs: Blobs) -> str:
    """The sha256 of the bytes, which are put among the blobs."""
    name = sha256(data).hexdigest()
    blobs[name] = data
    return name


def keep_base64(data: str, blobs: Blobs) -> str | None:
    """The sha256 of the bytes that the text stands for; None where it is no base64."""
    try:
        return keep(base64.b64decode(data, validate=True), blobs)
    except (binascii.Error, ValueError):
        return None


def keep_data_url(url: str, blobs: Blobs) -> tuple[str, str] | None:
    """Media type and sha256 of a `data:…;base64,…` URL; None where it is another one."""
    head, found, data = url.rpartition(";base64,")
    if not found or not head.startswith("data:"):
        return None
    blob = keep_base64(data, blobs)
    return None if blob is None else (head.removeprefix("data:"), blob)


def data_url(media_type: str, blob: str, blobs: Mapping[str, bytes]) -> str:
    """A blob as a `data:` URL."""
    return f"data:{media_type};base64,{base64.b64encode(blobs[blob]).decode()}"
