"""Providers' failures: category by status and words, and secrets hidden in the words.

`error_category` is for agents' programs and importers: they have a sentence, so the words win.
`errors.category` is for models called here. Words of people, models and tools are never hidden.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from stenolog.domain.events import ErrorCategory

_STATUS: dict[int, ErrorCategory] = {
    400: "invalid_request",
    401: "unauthorized",
    403: "unauthorized",
    408: "timeout",
    413: "context_length",
    422: "invalid_request",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
_WORDS: tuple[tuple[str, ErrorCategory], ...] = (
    (r"prompt is too long|context.?(length|window|limit)|too many tokens", "context_length"),
    (r"overloaded|at capacity", "overloaded"),
    (r"rate.?limit|usage.?limit|limit (was )?reached|too many requests", "rate_limited"),
    (r"credit balance|quota|billing", "budget"),
    (r"unauthori[sz]ed|authenticat|api key|log ?in|forbidden", "unauthorized"),
    (r"time[d]?[ -]?out|ETIMEDOUT", "timeout"),
    (r"connection|network|ECONN|ENOTFOUND|EAI_AGAIN|socket|stream disconnected|fetch failed", "network"),
    (r"interrupted|aborted|cancel", "cancelled"),
    (r"refus|content policy|flagged", "refused"),
    (r"invalid.?request|bad request", "invalid_request"),
)


def error_category(words: str, status: int = 0) -> ErrorCategory:
    """Return the category of the words, else of the HTTP status; `other` if unknown."""
    if not status and (found := re.search(r"\b([45]\d\d)\b", words[:80])):
        status = int(found[1])
    for pattern, named in _WORDS:
        if re.search(pattern, words, re.IGNORECASE):
            return named
    return _STATUS.get(status, "other")


HIDDEN = "***"
SHORTEST = 4
"""Characters of a secret: a shorter value would be found in ordinary words."""
SHORTEST_UNSURE = 8
"""Characters of a value whose name is no certain sign of a secret."""
_SURE = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|_PASS$|_PWD$", re.IGNORECASE)
_UNSURE = re.compile(r"AUTH(?!OR)|BEARER|COOKIE|SESSION|SIGNATURE|DSN|DATABASE_UR[IL]", re.IGNORECASE)
_ORDINARY = frozenset({"true", "false", "none", "null", "auto", "disabled", "enabled"})
_USERINFO = re.compile(r"(?<=://)[^\s/@'\"]+(?=@)")
# Compiled with its first use: an import of a file loads this module, and hides nothing.
_SHAPES = (
    r"(?i)\bsk-[\w*.-]{6,}"  # OpenAI, Anthropic, OpenRouter
    r"|\bAIza[\w-]{10,}"  # Google
    r"|\b(?:gh[opsur]_|github_pat_|glpat-|xox[abeoprs]-|hf_|npm_|pypi-)[\w-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{12,}"  # AWS
    r"|\beyJ[\w-]{5,}\.eyJ[\w-]{5,}\.[\w-]*"  # JSON web tokens
    r"|(?<=bearer )[\w.~+/=-]{6,}|(?<=authorization: )(?:\w+ )?\S{6,}|(?<=basic )[\w+/=-]{8,}"
    r"|(?<=[?&]key=)[^\s&'\"]+|(?<=token=)[^\s&'\"]+|(?<=password=)[^\s&'\"]+|(?<=api_key=)[^\s&'\"]+"
)


def hide(text: str, secrets: Iterable[str] = (), mark: str = HIDDEN) -> str:
    """Return the text without the given secrets, those of the environment, and look-alikes."""
    return re.sub(_SHAPES, mark, _USERINFO.sub(mark, hide_known(text, secrets, mark)))


def hide_known(text: str, secrets: Iterable[str] = (), mark: str = HIDDEN) -> str:
    """Return the text without these secrets and those of the environment."""
    known = {*secrets, *secrets_in(os.environ)}
    for secret in sorted({form for each in known for form in _forms(each)}, key=len, reverse=True):
        text = text.replace(secret, mark)
    return text


def secrets_in(named: Mapping[str, str]) -> Iterable[str]:
    """Yield values that are secret by name, and passwords in other addresses."""
    for name, value in named.items():
        is_secret = _SURE.search(name) or (_UNSURE.search(name) and len(value) >= SHORTEST_UNSURE)
        if is_secret and value.lower() not in _ORDINARY:
            yield value
        for userinfo in _USERINFO.findall(value):
            password = userinfo.partition(":")[2]
            if len(password) >= SHORTEST_UNSURE:
                yield password


def _forms(secret: str) -> Iterable[str]:
    """Yield a secret's spellings in errors: plain, and as in addresses and reprs."""
    if len(secret) >= SHORTEST:
        yield secret
        yield quote(secret, safe="")
        yield repr(secret)[1:-1]
