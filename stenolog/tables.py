"""Tables of SQL that follow the log: in its own database with every append, in PostgreSQL by a follower."""

from .adapters.tables.postgres import Follower
from .adapters.tables.sqlite import AttachedTable, TableStatus, attach_table, attached_tables
from .adapters.tables.table import CONVERSATION, POSITION, TABLES, Delete, Table

__all__ = [
    "CONVERSATION",
    "POSITION",
    "TABLES",
    "AttachedTable",
    "Delete",
    "Follower",
    "Table",
    "TableStatus",
    "attach_table",
    "attached_tables",
]
