"""Follows a log into the document's tables until it is killed: follow_workflow.py LOG KIND ADDRESS..."""

from __future__ import annotations

import sqlite3
import sys
from typing import Any

import psycopg

import stenolog
from stenolog.contrib.workflow import WorkflowFollower
from tests.tables.mysql_server import connect


def connected(kind: str, *address: str) -> Any:
    match kind:
        case "sqlite":
            return sqlite3.connect(address[0], timeout=30)
        case "postgres":
            return psycopg.connect(" ".join(address))
        case _:
            return connect(address[0], database=address[1])


if __name__ == "__main__":
    with stenolog.open(sys.argv[1]) as log:
        WorkflowFollower(log, connected(*sys.argv[2:])).follow()
