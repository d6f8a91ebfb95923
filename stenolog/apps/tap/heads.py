"""Heads of HTTP messages, forwarded as sent; recorded are only listed headers without credentials."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode

END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
MAX_HEAD_BYTES = 256 << 10

Headers = Iterable[tuple[bytes, bytes]]

REQUEST_NAMES = frozenset(
    b"accept accept-encoding accept-language anthropic-beta anthropic-version connection content-encoding "
    b"content-length content-type conversation_id conversation-id openai-beta originator "
    b"sec-websocket-extensions sec-websocket-protocol sec-websocket-version session-id session_id thread-id "
    b"thread_id traceparent transfer-encoding upgrade user-agent version x-app x-client-request-id "
    b"x-goog-api-client x-initiator x-parent-session-id x-request-id x-session-affinity x-session-id".split()
)
REQUEST_PREFIXES = (b"x-stainless-", b"x-claude-code-", b"x-codex-", b"x-opencode-")
ANSWER_NAMES = frozenset(
    b"cf-ray connection content-encoding content-length content-type date "
    b"openai-model openai-processing-ms openai-version request-id retry-after retry-after-ms "
    b"sec-websocket-extensions sec-websocket-protocol server server-timing transfer-encoding upgrade "
    b"x-request-id x-should-retry".split()
)
ANSWER_PREFIXES = (b"anthropic-ratelimit-", b"x-ratelimit-", b"x-codex-")
SECRET_IN_NAME = re.compile(rb"token|secret|auth|cookie|key|password|credential", re.IGNORECASE)
"""Names that begin like an allowed one and may carry a credential all the same."""
QUERY_VALUES = {
    "alt": re.compile(r"sse|json|media|proto"),
    "beta": re.compile(r"true|false|[01]"),
    "api-version": re.compile(r"v?\d[\d.-]{0,11}(?:[a-z-]{1,10})?|preview|latest"),
}
"""The names of a query that may be recorded, each with its values; others are replaced."""

SECRET = re.compile(
    r"""(?:
        sk-[\w-]{8,}                              # OpenAI, Anthropic, OpenRouter
      | (?:sk|rk|pk)_(?:live|test)_\w{8,}         # Stripe
      | eyJ[\w-]{8,}(?:\.[\w-]*){0,2}             # JSON web tokens
      | AIza[\w-]{16,} | ya29\.[\w-]{8,}          # Google
      | gh[pousr]_\w{16,} | github_pat_\w{16,}    # GitHub
      | glpat-[\w-]{12,}                          # GitLab
      | (?:AKIA|ASIA)[A-Z0-9]{12,}                # Amazon
      | xox[abeoprs]-[\w-]{8,}                    # Slack
      | hf_\w{16,} | gsk_\w{16,} | xai-\w{16,} | nvapi-[\w-]{16,} | pplx-\w{16,} | r8_\w{16,}
      | npm_\w{20,} | dop_v1_\w{16,} | SG\.[\w-]{16,}
      | (?:Bearer|Basic)\s+[\w.~+/=-]{6,}
      | (?<=//)[^/\s@]+@                          # a user and a password in a URL
    )""",
    re.VERBOSE,
)
REDACTED = "[redacted]"
RANDOM = re.compile(r"(?=\w*\d)(?=\w*[a-z])(?=\w*[A-Z])(?<![\w-])[A-Za-z0-9]{20,}(?![\w-])")
"""A part of a path such as a key; ids have a `_` or `-` in them, or small letters only."""


def head_end(data: bytes | bytearray) -> int:
    """Return the length of the head with its empty line; 0 if incomplete."""
    found = END_OF_HEAD.search(data)
    return found.end() if found else 0


def forwarded_head(head: bytes, target: bytes, host: bytes, authorization: bytes = b"") -> bytes:
    """Return a request's head for the upstream.

    Target and `Host` are replaced, `Expect` and proxy headers removed. `authorization`, from the upstream's
    URL, is added if the client sent none.
    """
    first, *lines = head.splitlines(keepends=True)
    method, _, version = first.rstrip(b"\r\n").split(b" ", 2)
    forwarded = [method + b" " + target + b" " + version + b"\r\n"]
    keeps, authorized, has_host = True, not authorization, False
    for line in lines[:-1]:
        if line[:1] not in b" \t":
            name = line.partition(b":")[0].strip().lower()
            keeps = name not in (b"expect", b"proxy-connection", b"proxy-authorization")
            authorized = authorized or name == b"authorization"
            if name == b"host":
                keeps, has_host = False, True
                forwarded.append(line.partition(b":")[0] + b": " + host + b"\r\n")
        if keeps:
            forwarded.append(line)
    if not has_host:  # HTTP/1.0
        forwarded.append(b"Host: " + host + b"\r\n")
    if not authorized:
        forwarded.append(b"Authorization: " + authorization + b"\r\n")
    return b"".join(forwarded) + b"\r\n"


def recorded_request_headers(headers: Headers) -> list[list[str]]:
    """Return a request's recordable headers, without possible secrets."""
    return _recorded(headers, REQUEST_NAMES, REQUEST_PREFIXES)


def recorded_answer_headers(headers: Headers) -> list[list[str]]:
    """Return an answer's recordable headers, without possible secrets."""
    return _recorded(headers, ANSWER_NAMES, ANSWER_PREFIXES)


def recorded_target(target: str) -> str:
    """Return a path without possible secrets, and its query with only listed names."""
    path, _, query = target.partition("#")[0].partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    recorded = [
        (name, value if QUERY_VALUES[name].fullmatch(value) else REDACTED)
        for name, value in pairs
        if name in QUERY_VALUES
    ]
    return RANDOM.sub(REDACTED, without_secrets(path)) + (f"?{urlencode(recorded)}" if recorded else "")


def without_secrets(text: str) -> str:
    """Return the text with possible secrets replaced."""
    return SECRET.sub(REDACTED, text)


def _recorded(headers: Headers, names: frozenset[bytes], prefixes: tuple[bytes, ...]) -> list[list[str]]:
    recorded = []
    for name, value in headers:
        low = name.lower()
        if low in names or (low.startswith(prefixes) and not SECRET_IN_NAME.search(low)):
            recorded.append([name.decode("latin-1"), without_secrets(value.decode("latin-1"))])
    return recorded
