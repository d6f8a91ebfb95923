"""Keeps `conversation_messages` in an application's own database up to date with a log.

    with closing(pymysql.connect(database="acme")) as connection:
        WorkflowFollower(log, connection).follow()

Rows, ids and how far the follower has come are written in one transaction for each conversation: wherever it
is killed, it goes on with what is missing, and nothing is there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stenolog import Conversation, Log
from stenolog.errors import CallerError, TableError
from stenolog.events import Entry, UserMessage

from .databases import MESSAGES, WORKFLOWS, WorkflowDatabase
from .files import SYSTEM
from .rows import columns_of, messages_in

LONGEST_NAME = 255
LARGEST_ID = 2**31 - 1


class WorkflowFollower:
    """Writer of conversations into `conversation_messages(id, workflowId, role, content, agent, createdAt)`.

    `connection`, of sqlite3, psycopg or PyMySQL, is used by nothing else meanwhile. Missing tables are
    created. A column `cutOff` marks incomplete answers; a new answer replaces the old one's row. Rows
    imported from the same table are not written again.

    `workflow` returns the id in `workflows` for a conversation's name, None to leave it out. By default a
    name of digits is the id; conversations forked from it or begun in it are left out; others get a new
    workflow of their name. `columns` gives an entry's values for your own columns. Raises `CallerError`, and
    `TableError` for what the database refuses.
    """

    def __init__(
        self,
        log: Log,
        connection: Any,
        *,
        workflow: Callable[[str], int | None] | None = None,
        columns: Callable[[Entry], Mapping[str, Any]] | None = None,
    ) -> None:
        self.log = log
        self._columns = columns
        self._database = WorkflowDatabase(connection)
        self._workflow = workflow

    def follow(self, timeout: float | None = None) -> None:
        """Catch up now, and again whenever the log grows, until closed or quiet for `timeout` seconds.

        Raises `TableError` if the database goes away: begin again with a new connection.
        """
        tail = self.log.tail(timeout)  # from here on, so that nothing is missed while catching up
        self.catch_up()
        for entry in tail:
            if entry.conversation in self.log:
                self._follow(self.log[entry.conversation])

    def catch_up(self) -> None:
        """Write missing rows; delete those of deleted conversations.

        A refused conversation does not hold up others; the first error is raised at the end.
        """
        refused = list[Exception]()
        for name in self.log.names(archived=True):
            try:
                self._follow(self.log[name])
            except TableError as error:
                refused.append(TableError(f"{name!r}: {error}"))
            except CallerError as error:
                refused.append(error)
        with self._database.transaction():
            # In the transaction: else a conversation that another follower has begun meanwhile looks deleted.
            keys = {self.log[name].key for name in self.log.names(archived=True)}
            for (key,) in self._database.run("SELECT conversation FROM stenolog_workflows"):
                if key not in keys:
                    self._forget(key)
        if refused:
            raise refused[0]

    def _follow(self, conversation: Conversation) -> None:
        with self._database.transaction():
            key = conversation.key
            if key is None:
                return
            workflow, position = self._progress(conversation, key)
            last = None
            for entry in conversation.entries(after=position):
                if workflow is not None:
                    self._take(entry, key, workflow)
                last = entry
            if last is not None:
                self._database.run(
                    "UPDATE stenolog_workflows SET position = ?, digest = ? WHERE conversation = ?",
                    *(last.position, last.digest, key),
                )

    def _progress(self, conversation: Conversation, key: int) -> tuple[int | None, int]:
        """Return a conversation's workflow and the position written up to."""
        found = self._database.run(
            "SELECT workflow, position, digest FROM stenolog_workflows WHERE conversation = ?", key
        )
        if not found:
            workflow = self._begun(conversation)
            self._database.run("INSERT INTO stenolog_workflows VALUES (?, ?, 0, '')", key, workflow)
            return workflow, 0
        ((workflow, position, digest),) = found
        if position and (position > conversation.position or conversation.entry(position).digest != digest):
            raise TableError(f"{MESSAGES}: it follows another log than {self.log.path}")
        return workflow, position

    def _begun(self, conversation: Conversation) -> int | None:
        """Return a new conversation's workflow id; None for an imported copy of another's rows."""
        database, name = self._database, conversation.name
        id: int | None
        if self._workflow is not None:
            id = self._workflow(name)
        elif _is_number(name):
            id = int(name)
            if not database.run(f"SELECT id FROM {WORKFLOWS} WHERE id = ?", id):
                database.insert(WORKFLOWS, id=id, name=name)
        elif self._is_beside_a_workflow(conversation):
            return None  # the application makes its workflows itself, and has made none for this one
        else:
            id = self._new_workflow(name)
        if id is not None and database.run(
            "SELECT conversation FROM stenolog_workflows WHERE workflow = ?", id
        ):
            source = getattr(conversation.entry(1).event, "source", None)
            if self._workflow is None and source is not None and source.system == SYSTEM:
                return None
            raise CallerError(f"{name!r}: workflow {id} has another conversation; `workflow=` gives it an id")
        return id

    def _is_beside_a_workflow(self, conversation: Conversation) -> bool:
        """Return whether a conversation was forked from or begun in an application's workflow."""
        above = conversation.settings().parent
        while above is not None and not _is_number(above.conversation):
            above = self.log[above.conversation].settings().parent if above.conversation in self.log else None
        return above is not None

    def _new_workflow(self, name: str) -> int:
        try:
            return self._database.insert(WORKFLOWS, name=name[:LONGEST_NAME])
        except self._database.raised as error:
            reason = " ".join(str(error).split())
            raise CallerError(
                f"{name!r}: no workflow can be made for it ({reason}); `workflow=` gives it an id, or None"
            ) from error

    def _take(self, entry: Entry, key: int, workflow: int) -> None:
        for position in _erased(entry):
            for id in self._ids(key, position):
                newest = "SELECT MAX(position) FROM stenolog_messages WHERE message = ?"
                if self._database.run(newest, id) == [(position,)]:  # else an edit stands there now
                    self._delete(id)
        edited = getattr(entry.event, "replaces", None)
        ids = self._ids(key, edited) if edited else []
        for row in messages_in(entry):
            values = {**self._own_columns(entry), **columns_of(row)}
            if ids:
                id = ids.pop(0)
                self._update(id, values)
            else:
                id = self._imported(entry, workflow) or self._database.insert(
                    MESSAGES, workflowId=workflow, **values
                )
            self._database.run("INSERT INTO stenolog_messages VALUES (?, ?, ?)", id, key, entry.position)
        for id in ids:  # an edit that says less
            self._delete(id)

    def _own_columns(self, entry: Entry) -> Mapping[str, Any]:
        """Return the values of the application's own columns, which the table must have."""
        given = self._columns(entry) if self._columns else {}
        for name in given:
            self._database.column(name)
        return given

    def _imported(self, entry: Entry, workflow: int) -> int | None:
        source = getattr(entry.event, "source", None)
        if source is None or source.system != SYSTEM or not source.id.isdecimal():
            return None
        where = f"id = ? AND {self._database.column('workflowId')} = ?"
        found = self._database.run(f"SELECT id FROM {MESSAGES} WHERE {where}", int(source.id), workflow)
        return int(found[0][0]) if found else None

    def _update(self, id: int, values: dict[str, Any]) -> None:
        columns = ", ".join(f"{self._database.column(name)} = ?" for name in values)
        self._database.run(f"UPDATE {MESSAGES} SET {columns} WHERE id = ?", *values.values(), id)

    def _ids(self, key: int, position: int) -> list[int]:
        found = self._database.run(
            "SELECT message FROM stenolog_messages WHERE conversation = ? AND position = ? ORDER BY message",
            *(key, position),
        )
        return [int(id) for (id,) in found]

    def _delete(self, id: int) -> None:
        self._database.run(f"DELETE FROM {MESSAGES} WHERE id = ?", id)
        self._database.run("DELETE FROM stenolog_messages WHERE message = ?", id)

    def _forget(self, key: int) -> None:
        mine = "SELECT message FROM stenolog_messages WHERE conversation = ?"
        self._database.run(f"DELETE FROM {MESSAGES} WHERE id IN ({mine})", key)
        self._database.run("DELETE FROM stenolog_messages WHERE conversation = ?", key)
        self._database.run("DELETE FROM stenolog_workflows WHERE conversation = ?", key)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and 0 < int(name) <= LARGEST_ID


def _erased(entry: Entry) -> list[int]:
    if not isinstance(entry.event, UserMessage) or entry.event.author_kind != "system":
        return []
    ours = entry.event.meta.get("stenolog")
    erasure = ours.get("erasure") if isinstance(ours, dict) else None
    positions = erasure.get("positions") if isinstance(erasure, dict) else None
    return [at for at in positions if isinstance(at, int)] if isinstance(positions, list) else []
