"""Upstreams of a tap: the only servers that it forwards to, each named in the base URL."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from stenolog.domain.errors import InvalidEventError
from stenolog.projections.formats import providers
from stenolog.projections.programs import PROGRAMS, AccountUpstream

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Upstream:
    """A server: `path` precedes the paths of requests, `authorization` is from its URL."""

    name: str
    scheme: str
    host: str
    port: int
    path: str = ""
    authorization: str = ""

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, which may be shown and recorded."""
        return f"{self.scheme}://{self.authority}"


def parse_upstream(name: str, url: str) -> Upstream:
    """Return the upstream of a URL. Raises `InvalidEventError`, without quoting a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidEventError(f"upstream {name}: expected an http or https URL: {error}") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise InvalidEventError(f"upstream {name}: expected an http or https URL, found {parts.scheme!r}")
    if parts.query or parts.fragment:
        raise InvalidEventError(f"upstream {name}: expected a URL without a query and a fragment")
    if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise InvalidEventError(f"upstream: expected a name of letters, digits, - and _, found {name!r}")
    authorization = ""
    if parts.username is not None or parts.password is not None:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    path = parts.path.rstrip("/")
    return Upstream(name, parts.scheme, parts.hostname, port or PORTS[parts.scheme], path, authorization)


def base_urls() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return each API's URL, and the environment variables that clients read for another."""
    return {
        **{each.names[0]: (each.base, each.base_variables) for _, each in providers()},
        "code-assist": ("https://cloudcode-pa.googleapis.com", ("CODE_ASSIST_ENDPOINT",)),
    }


def upstreams(options: Iterable[str], environ: Mapping[str, str]) -> dict[str, Upstream]:
    """Return the upstreams by name.

    An option is `NAME=URL`, or only a URL: the one upstream, named by the API of its host, else "default". A
    base URL in the environment is used as upstream, so that proxies are chained. Raises `InvalidEventError`.
    """
    urls, known = {}, base_urls()
    for name, (default, variables) in known.items():
        present = (environ.get(variable, "") for variable in variables)
        urls[name] = next(filter(None, present), default)
    for option in options:
        name, separator, url = option.partition("=")
        if not separator or "://" in name:
            name, url = _name_of(option), option
        urls[name] = url
    for account in accounts():
        if urls[account.instead_of] == known[account.instead_of][0]:
            urls.setdefault(account.name, account.url)
    return {name: parse_upstream(name, url) for name, url in urls.items()}


def accounts() -> list[AccountUpstream]:
    """Return the upstreams of users who logged in to a program."""
    return [program.account for program in PROGRAMS.values() if program.account is not None]


def _name_of(url: str) -> str:
    host = urlsplit(url).hostname
    same = (name for name, (default, _) in base_urls().items() if urlsplit(default).hostname == host)
    return next(same, "default")
