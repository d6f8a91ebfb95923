"""The log in an SQLite file as an application of the `eventsourcing` library.

with SqliteLogApplication(env={"SQLITE_DBNAME": "talks.db"}) as application: ...
"""

from __future__ import annotations

from typing import Any

from eventsourcing.persistence import InfrastructureFactory
from eventsourcing.sqlite import SQLiteFactory
from eventsourcing.utils import Environment, EnvType

from stenolog.adapters.store.contract.application import LogApplication
from stenolog.adapters.store.contract.values import DEADLINE

from .recorder import SqliteLogRecorder
from .turn.datastore import SqliteLogDatastore

SYNCHRONOUS = "SQLITE_SYNCHRONOUS"


class LogFactory(SQLiteFactory):
    """Makes the datastore and the recorder from settings given in words."""

    datastore: SqliteLogDatastore

    def __init__(self, env: Environment | EnvType | None) -> None:
        # Past `SQLiteFactory.__init__`, which would make a datastore of its own.
        super(SQLiteFactory, self).__init__(env)
        self.datastore = SqliteLogDatastore(
            self.env.get(self.SQLITE_DBNAME) or "",
            synchronous=self.env.get(SYNCHRONOUS) or "full",
            deadline=float(self.env.get(self.SQLITE_LOCK_TIMEOUT) or DEADLINE),
        )

    def application_recorder(self) -> SqliteLogRecorder:
        return SqliteLogRecorder(self.datastore)


class SqliteLogApplication(LogApplication):
    """The application of a log in SQLite; `env` as of `LogApplication`."""

    name = LogApplication.name

    def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:
        return LogFactory(env)
