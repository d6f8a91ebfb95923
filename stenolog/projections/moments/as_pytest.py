"""A moment as a test: one file that builds the request again, and compares the two."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from stenolog.projections.messages.body_digest import by_hash
from stenolog.projections.requests.request import PATCH
from stenolog.projections.requests.transport import Transport

from .as_python import docstring, literal
from .entry_lines import written, written_entries
from .moment import Moment

LINE = 76
"""Characters of a blob's base64 in a line."""


def as_pytest(moment: Moment) -> str:
    """Return the file."""
    request, blobs = moment.request, moment.blobs
    note = "" if request.sendable else f"It cannot be sent: {request.reason}."
    name = re.sub(r"\W+", "_", f"{moment.address}_at_{request.at}", flags=re.ASCII).strip("_").lower()
    entries = "\n".join(written_entries(moment.entries))
    return f'''{docstring(f"{moment.title}.", "As a test: offline, without a key.", note)}

from stenolog.testing import check_moment

FIELDS: dict[str, str] = {{}}
"""JSON pointers into the request: "live" is compared by its type alone, "ignore" not at all."""

MOMENT = {literal(moment_data(moment))}

ENTRIES = r"""
{entries}
"""

BLOBS = {_blobs(blobs)}

REQUEST = r"""
{_body(request.body, request.messages_key)}
"""


def test_the_request_of_{name}() -> None:
    check_moment(MOMENT, ENTRIES, REQUEST, blobs=BLOBS, fields=FIELDS)
'''


def moment_data(moment: Moment) -> dict[str, Any]:
    """Return the inputs of a moment's request, and the digests of its body and of the sent bytes."""
    request = moment.request
    transport = moment.sent or Transport()
    patch = {} if moment.patch is None else {PATCH: moment.patch}
    return {
        "conversation": moment.conversation,
        "agent": request.agent,
        "task": request.task,
        "at": request.at,
        "api": request.api,
        "policy": request.policy.json,
        "pipeline": request.pipeline,
        "transport": transport.json,
        "sha256": request.sha256,
        "sent": sha256(moment.render(transport)).hexdigest(),
        **patch,
    }


def _blobs(blobs: Mapping[str, bytes]) -> str:
    if not blobs:
        return "dict[str, str]()"
    pieces = [f'    "{sha}": """\n{"".join(_lines(content))}""",\n' for sha, content in blobs.items()]
    return f"{{\n{''.join(pieces)}}}"


def _lines(content: bytes) -> Iterator[str]:
    text = b64encode(content).decode()
    return (f"{text[at : at + LINE]}\n" for at in range(0, len(text), LINE))


def _body(body: Mapping[str, Any], messages_key: str) -> str:
    fields = []
    for key, value in by_hash(body).items():
        if key == messages_key and isinstance(value, list) and value:
            items = ",\n".join(map(written, value))
            fields.append(f"{written(key)}: [\n{items}\n]")
        else:
            fields.append(f"{written(key)}: {written(value)}")
    return "{" + ",\n".join(fields) + "}"
