"""psycopg's errors as ours, by fault: the caller's, the data's or the machine's."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors as pg

from stenolog.domain.errors import (
    CorruptLogError,
    InvalidEventError,
    StenologError,
    StoreError,
    StoreTimeoutError,
)

from .address import OURS


class ConnectionsInUse(psycopg.OperationalError):
    """Every connection of this process was in use until the deadline."""


RAISED = (psycopg.Error,)
"""The exceptions that the driver raises, and `Connections`."""
# 57P01 to 57P03: the server ends, or has just begun; 57P05, 25P03: it waited for us too long; 08: the
# connection; 53300: too many of them.
GONE = ("08", "57P01", "57P02", "57P03", "57P05", "25P03", "53300")
WAITED = (pg.QueryCanceled, pg.LockNotAvailable, pg.DeadlockDetected, ConnectionsInUse)
# The driver and libpq tell of these before there is a server to give a code.
MISTAKEN = re.compile(
    r"invalid (URI query parameter|connection option|port number)|bad value for |invalid .{0,40}value:? \"|"
    r"missing .{0,40} in (connection|URI)"
)
"""The words of errors about an address that cannot be meant."""
DAMAGED = (pg.DataCorrupted, pg.IndexCorrupted, pg.IntegrityError)


def is_lost(error: BaseException | None) -> bool:
    """Return whether the connection was lost, so that another may succeed."""
    if isinstance(error, ConnectionsInUse) or not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is not None:
        return error.sqlstate.startswith(GONE)
    # Without a code the driver raised it: the socket was closed, or there was none.
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def may_be_repeated(error: BaseException) -> bool:
    """Return whether another attempt may succeed, after a lost connection or a deadlock."""
    return isinstance(error, pg.DeadlockDetected) or is_lost(error)


def to_store_error(error: psycopg.Error, where: str) -> StenologError:
    """Return the equivalent error of ours; `where` is the log, without its password."""
    said = " ".join(str(error).split())
    if error.sqlstate is None and MISTAKEN.search(said):
        return InvalidEventError(
            f"{where}: expected parameters and values that libpq knows, or ours ({', '.join(OURS)}): {said}"
        )
    if isinstance(error, WAITED):
        return StoreTimeoutError(f"{where}: waited until the deadline for others, or for the server ({said})")
    if isinstance(error, DAMAGED):
        return CorruptLogError(f"{where}: {said}")
    if isinstance(error, pg.UndefinedTable | pg.InvalidSchemaName | pg.UndefinedColumn):
        return StoreError(f"{where}: expected the tables of a log, found none of that name ({said})")
    if isinstance(error, pg.InsufficientPrivilege):
        return StoreError(f"{where}: this role may not do that ({said})")
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return StoreError(f"{where}: this server only reads ({said})")
    if isinstance(error, psycopg.DataError | pg.ProgramLimitExceeded):
        return InvalidEventError(f"{where}: {said}")
    return StoreError(f"{where}: {said}")
