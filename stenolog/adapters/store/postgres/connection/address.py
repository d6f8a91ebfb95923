"""Addresses of logs in PostgreSQL: `postgresql://user:password@host/database?schema=acme`."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, urlencode

from stenolog.adapters.store.contract.address import is_postgres, split, without_password
from stenolog.domain.errors import InvalidEventError

SCHEMA = "stenolog"
"""The schema of a log whose address names none."""
POOL = 8
"""The number of connections that a process keeps at most, but for the one that listens."""
OURS = ("schema", "pool", "notify", "pooled", "listen")
"""The parameters that are ours; all others are libpq's."""
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Address(NamedTuple):
    """A parsed address.

    `text` is all of it, `conninfo` is for the driver; both have the password, `shown`, for messages, does
    not. `schema` has the tables, `pool` is the number of connections. `notify` is False if NOTIFY does not
    pass (pgbouncer, a replica): others' commits are then polled. `listen` is a direct address for LISTEN if
    `conninfo` is a pooler's; `pooled` says so.
    """

    text: str
    conninfo: str
    shown: str
    schema: str = SCHEMA
    pool: int = POOL
    notify: bool = True
    pooled: bool = False
    listen: str = ""

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"


def parse(text: str) -> Address:
    """Parse an address.

    Its query has libpq's parameters, and ours: `schema`, `pool` (a number), `notify` (on, off), `pooled` (on,
    off) and `listen` (an address). Raises `InvalidEventError`, without the password.
    """
    _, user, password, place, parameters = split(text)
    ours = {name: value for name, value in parameters if name in OURS}
    others = [(name, value) for name, value in parameters if name not in OURS]
    schema = ours.get("schema", SCHEMA)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidEventError(
            "schema: expected small letters, digits and _, at most 63 and no pg_ before them, "
            f"found {schema!r:.80}"
        )
    return Address(
        text=text,
        conninfo=f"postgresql://{_who(user, password)}{place}{_query(others)}",
        shown=without_password(text),
        schema=schema,
        pool=_number("pool", ours.get("pool", str(POOL))),
        notify=_switch("notify", ours.get("notify", "on")),
        pooled=_switch("pooled", ours.get("pooled", "off")),
        listen=_conninfo_of("listen", ours["listen"]) if "listen" in ours else "",
    )


def _who(user: str, password: str | None) -> str:
    # Quoted anew: of what it cannot read the driver's errors tell parts, of a password too.
    secret = "" if password is None else f":{quote(password, safe='')}"
    return f"{quote(user, safe='')}{secret}@" if user or secret else ""


def _conninfo_of(name: str, value: str) -> str:
    if not is_postgres(value):
        raise InvalidEventError(f"{name}: expected an address, postgresql://…, found another text")
    return parse(value).conninfo


def _query(pairs: list[tuple[str, str]]) -> str:
    return f"?{urlencode(pairs, quote_via=quote, safe='/')}" if pairs else ""


def _number(name: str, value: str) -> int:
    if not value.isdecimal() or not 0 < int(value) <= 1000:
        raise InvalidEventError(f"{name}: expected a number from 1 to 1000, found {value!r:.80}")
    return int(value)


def _switch(name: str, value: str) -> bool:
    if value not in ("on", "off"):
        raise InvalidEventError(f"{name}: expected 'on' or 'off', found {value!r:.80}")
    return value == "on"
