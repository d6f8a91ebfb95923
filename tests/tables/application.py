"""An application's own database, with the document's tables in it, in SQLite, PostgreSQL or MySQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

from stenolog import Log
from stenolog.contrib.workflow import WorkflowFollower

DDL = {
    "mysql": """CREATE TABLE workflows (id INT AUTO_INCREMENT PRIMARY KEY);
        CREATE TABLE conversation_messages (
          id INT AUTO_INCREMENT PRIMARY KEY,
          workflowId INT NOT NULL,
          role ENUM('system', 'user', 'assistant') NOT NULL,
          content TEXT NOT NULL,
          agent VARCHAR(50), -- orchestrator, task_planner, email_writer
          createdAt TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
          FOREIGN KEY (workflowId) REFERENCES workflows(id)
        )""",
    "postgres": """CREATE TABLE workflows (id SERIAL PRIMARY KEY);
        CREATE TABLE conversation_messages (
          id SERIAL PRIMARY KEY,
          workflowId INT NOT NULL,
          role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
          content TEXT NOT NULL,
          agent VARCHAR(50),
          createdAt TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
          FOREIGN KEY (workflowId) REFERENCES workflows(id)
        )""",
    "sqlite": """CREATE TABLE workflows (id INTEGER PRIMARY KEY AUTOINCREMENT);
        CREATE TABLE conversation_messages (
          id INTEGER PRIMARY KEY AUTOINCREMENT,
          workflowId INT NOT NULL,
          role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
          content TEXT NOT NULL,
          agent VARCHAR(50),
          createdAt TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
          FOREIGN KEY (workflowId) REFERENCES workflows(id)
        )""",
}
"""The document's table, and what each database calls its types."""


class Application(NamedTuple):
    """The database of the application: how to connect to it, and what another process does the same by."""

    kind: str
    connect: Callable[[], Any]
    address: str

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Return the rows of the last statement, as the application reads them."""
        rows = list[tuple[Any, ...]]()
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
                rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            connection.commit()
        return rows

    def messages(self, workflow: str = "") -> list[tuple[Any, ...]]:
        column = '"workflowId"' if self.kind == "postgres" else "workflowId"
        where = f"WHERE {column} = {workflow}" if workflow else ""
        return self.run(f"SELECT role, agent, content FROM conversation_messages {where} ORDER BY id")


def follow(log: Log, application: Application) -> None:
    with closing(application.connect()) as connection:
        WorkflowFollower(log, connection).catch_up()
