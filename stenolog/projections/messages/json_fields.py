"""Fields of foreign JSON, which may be missing or of another type, and base64 media in it."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from stenolog.domain.entry import LONGEST_NAME
from stenolog.domain.parts import ImagePart

Json = Any
LARGEST = 2**53 - 1
LONGEST_TITLE = 100
"""Characters of a title that is made of a message."""
TAKEN = frozenset({"user", "system"})
"""Names that requests use for senders that are no agents."""
_OF_NO_PART = ("type", "cache_control")
"""Fields of a block that are none of its part."""


def same_from_start(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the number of equal items at the beginning of two sequences."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((nth for nth, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def as_dict(value: Json) -> dict[str, Any]:
    """Return the object, or an empty one."""
    return value if isinstance(value, dict) else {}


def object_in(value: Json) -> dict[str, Any]:
    """Return the object, also from JSON in a text; an empty one for anything else."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return as_dict(json.loads(value))
    return as_dict(value)


def as_list(value: Json) -> list[Any]:
    """Return the list, or an empty one."""
    return value if isinstance(value, list) else []


def as_str(value: Json) -> str:
    """Return the string, or an empty one."""
    return value if isinstance(value, str) else ""


def as_int(value: Json) -> int:
    """Return the number as an integer that is not negative and fits in 53 bits, or 0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(min(max(value, 0), LARGEST)) if is_number and value == value else 0  # a NaN is not itself


def micro_dollars(value: Json) -> int | None:
    """Return an amount of dollars in millionths; None if it is no cost."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return round(value * 1_000_000) if is_number and 0 < value < 1e9 else None


def compact_json(value: Json) -> str:
    """Return the value as JSON without blanks, keys in their own order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def rest_of(block: dict[str, Any], provider: str, *said: str) -> dict[str, Any]:
    """Return what else a provider says of a text or a call, as the fields of its part.

    `said` are the fields that the part has. A call by the model itself has no caller.
    """
    left = {name: value for name, value in block.items() if value and name not in (*said, *_OF_NO_PART)}
    if as_dict(left.get("caller")).get("type") == "direct":
        del left["caller"]
    return {"provider": provider, "raw": compact_json(left)} if left else {}


def arguments(value: Json) -> str:
    """Return the arguments of a tool call as a raw string, dumped if they are no string."""
    return value if isinstance(value, str) else compact_json({} if value is None else value)


def key_of(value: str) -> str:
    """Return the text as the id of an entry, with room for a suffix: printable, not too long."""
    if not value.isprintable():
        value = "".join(char if char.isprintable() else "_" for char in value)
    return value.strip()[: LONGEST_NAME - 20].strip()


def title_of(words: str) -> str:
    """Return words as a title: one line of printable characters, cut at a blank if long."""
    line = " ".join("".join(char if char.isprintable() else " " for char in words[:10_000]).split())
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1].rsplit(' ', 1)[0]}…"


def conversation_name(value: str, default: str = "conversation") -> str:
    """Return the text as the name of a conversation or an agent, with room for a suffix."""
    return key_of(value) or default


def agent_called(value: str, default: str = "assistant") -> str:
    """Return the text as the name of an agent.

    A slash would make it the address of a lane, and no agent may speak as the user or as the system.
    """
    name = conversation_name(value.replace("/", "-"), default)
    return f"{name}-agent" if name.casefold() in TAKEN else name


Blobs = dict[str, bytes]


def keep(data: bytes, blobs: Blobs) -> str:
    """Return the sha256 of the bytes, which are put among the blobs."""
    name = sha256(data).hexdigest()
    blobs[name] = data
    return name


def keep_base64(data: str, blobs: Blobs) -> str | None:
    """Return the sha256 of the decoded bytes; None if the text is no base64."""
    try:
        return keep(base64.b64decode(data, validate=True), blobs)
    except (binascii.Error, ValueError):
        return None


def linked_picture(url: str, blobs: Blobs) -> ImagePart:
    """Return a picture by its URL, which may hold its bytes."""
    kept = keep_data_url(url, blobs)
    return ImagePart(url=url) if kept is None else ImagePart(media_type=kept[0], blob=kept[1])


def keep_data_url(url: str, blobs: Blobs) -> tuple[str, str] | None:
    """Return media type and sha256 of a `data:…;base64,…` URL; None for any other."""
    head, found, data = url.rpartition(";base64,")
    if not found or not head.startswith("data:"):
        return None
    blob = keep_base64(data, blobs)
    return None if blob is None else (head.removeprefix("data:"), blob)


def data_url(media_type: str, blob: str, blobs: Mapping[str, bytes]) -> str:
    """Return a blob as a `data:` URL."""
    return f"data:{media_type};base64,{base64.b64encode(blobs[blob]).decode()}"


def called_in(words: str) -> tuple[str, str]:
    """Return the tool and the arguments that a text calls: the first name and object of its JSON."""
    found: dict[str, Any] = {}
    with suppress(ValueError, RecursionError):
        found = as_dict(json.JSONDecoder().raw_decode(words, words.index("{"))[0])
    names = (each for each in found.values() if isinstance(each, str) and re.fullmatch(r"[\w.-]{1,64}", each))
    given = next((each for each in found.values() if isinstance(each, dict)), {})
    return next(names, ""), compact_json(given)
