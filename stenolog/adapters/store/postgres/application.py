"""The log in PostgreSQL as an application of the `eventsourcing` library."""

from __future__ import annotations

from typing import Any

from eventsourcing.persistence import InfrastructureFactory, TrackingRecorder
from eventsourcing.postgres import PostgresFactory
from eventsourcing.utils import Environment, EnvType

from stenolog.adapters.store.contract.address import without_password
from stenolog.adapters.store.contract.application import LogApplication
from stenolog.adapters.store.contract.values import DEADLINE

from .connection import address
from .connection.datastore import PostgresLogDatastore
from .recorder import PostgresLogRecorder

ADDRESS = "POSTGRES_ADDRESS"
TIMEOUT = "POSTGRES_TIMEOUT"
SYNCHRONOUS = "POSTGRES_SYNCHRONOUS"
MAKE = "POSTGRES_MAKE"


class SecretEnvironment(Environment):
    """Settings that may hold a password: no repr shows them."""

    def __repr__(self) -> str:
        return f"<settings of {without_password(self.get(ADDRESS) or '')}>"


class PostgresLogFactory(PostgresFactory):
    """Makes the datastore and the recorder from settings given in words."""

    datastore: PostgresLogDatastore

    def __init__(self, env: Environment | EnvType | None) -> None:
        # Past `PostgresFactory.__init__`, which would make a datastore of its own.
        InfrastructureFactory.__init__(self, env)
        self.datastore = PostgresLogDatastore(
            address.parse(self.env.get(ADDRESS) or ""),
            deadline=float(self.env.get(TIMEOUT) or DEADLINE),
            synchronous=self.env.get(SYNCHRONOUS) or "full",
            make=self.env.get(MAKE) != "no",
        )

    def application_recorder(self) -> PostgresLogRecorder:
        return PostgresLogRecorder(self.datastore)


class PostgresLogApplication(LogApplication):
    """The application: `recorder` holds the entries, `save(Recorded(...))` appends.

    `env` knows `POSTGRES_ADDRESS` (`postgresql://…`), `POSTGRES_TIMEOUT` (seconds), `POSTGRES_SYNCHRONOUS`
    (full, normal) and `POSTGRES_MAKE` ("no": an error if there is no log).
    """

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        return SecretEnvironment(name, dict(env or {}))

    def construct_factory(self, env: Environment) -> InfrastructureFactory[TrackingRecorder]:
        found: Any = PostgresLogFactory(env)
        return found  # type: ignore[no-any-return]
