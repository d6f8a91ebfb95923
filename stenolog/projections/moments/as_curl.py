"""A moment as a shell script: curl sends the very bytes of the request."""

from __future__ import annotations

import re
from hashlib import sha256

from .endpoints import endpoint_of, path_behind, transport_of
from .moment import Moment

NOT_OF_A_URL = re.compile(rb"[^A-Za-z0-9/:?=&@,+._~-]")


def as_curl(moment: Moment) -> str:
    """Return the script. Raises `CallerError` for a request that is not sent over HTTP."""
    place = endpoint_of(moment, "curl")
    provider = place.provider
    transport = transport_of(moment, place)
    content = moment.render(transport)
    path = _of_a_url(path_behind(place, transport.path))
    headers = {"content-type": "application/json", **dict(place.headers), **transport.headers}
    # Not a here-document: the shell would add a line feed, and `!` means something in one.
    return "\n".join(
        (
            f"# {_comment(moment.title)}",
            f"# {len(content)} bytes, sha256 {sha256(content).hexdigest()}",
            *_not_sendable(moment),
            f"printf %s {quoted(content.decode())} |",
            f'curl "${{{provider.base_variables[0]}:-{provider.base}}}"{quoted(path)} \\',
            *(f"  -H {quoted(f'{name}: {value}')} \\" for name, value in headers.items()),
            f'  -H "{provider.key_header}${{{provider.key_variable}:?}}" \\',
            "  --data-binary @-",
            "",
        )
    )


def quoted(text: str) -> str:
    """Return any text as a word of the shell."""
    closed = text.replace("'", "'\\''")
    return f"'{closed}'"


def _of_a_url(path: str) -> str:
    return NOT_OF_A_URL.sub(lambda found: b"%%%02X" % found[0][0], path.encode()).decode()


def _not_sendable(moment: Moment) -> tuple[str, ...]:
    request = moment.request
    return () if request.sendable else (f"# It cannot be sent: {_comment(request.reason)}",)


def _comment(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)
