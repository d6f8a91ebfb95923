"""A log behind a proxy that loses answers, for what a store promises then."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stenolog.adapters.store.contract.appends import Sources
from stenolog.adapters.store.contract.recorder import LogRecorder
from stenolog.adapters.store.contract.values import Stream
from tests.postgres.proxy import Proxy, proxied
from tests.postgres.server import Server

from .given import put
from .stores import Postgres

ID = "m-lost"
"""The id of each entry that the store itself makes in the log behind the proxy."""


class Way(NamedTuple):
    """A log behind a proxy, and the same log without it."""

    behind: LogRecorder
    beside: LogRecorder
    proxy: Proxy
    address: str


@contextmanager
def way_to(server: Server) -> Iterator[Way]:
    """Yield a log of one conversation behind a proxy."""
    with (
        server.schema() as address,
        tempfile.TemporaryDirectory(prefix="pg") as folder,
        proxied(server, Path(folder)) as proxy,
    ):
        schema = address.rpartition("=")[2]
        stores = Postgres(server._replace(folder=folder).address(schema=schema)), Postgres(address)
        try:
            beside, behind = stores[1].open(), stores[0].open(Sources(id=lambda: ID))
            put(beside, Stream("demo"), "first")
            yield Way(behind, beside, proxy, stores[0].address)
        finally:
            for store in stores:
                store.close()
