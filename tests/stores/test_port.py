"""Above the store nothing knows SQLite, but for what is about SQLite files themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import stenolog

PACKAGE = Path(stenolog.__file__).parent
ABOUT_SQLITE = {
    "adapters/importers/sqlite_file.py": "reads databases of other programs",
    "contrib/langgraph/database.py": "reads databases of other programs",
    "contrib/langgraph/thread_messages.py": "reads databases of other programs",
    "contrib/workflow/files.py": "reads databases of other programs",
    "contrib/workflow/databases.py": "writes an application's own tables, in SQLite among others",
    "adapters/cli/framework.py": "tells a damaged file from other errors, and names what mends one",
    "adapters/tables/sqlite.py": "writes the user's tables, in the log's own database where it is in SQLite",
    "testing/crash_points.py": "copies the file at each commit",
    "adapters/verify/salvage.py": "reads the pages of a damaged file, and writes a new one",
    "adapters/verify/trace.py": "looks for a value in tables that follow the log in its own file",
}
"""What may know SQLite, and why."""
WORDS = {"datastore", "execute", "executemany"}
MODULES = ("_rows", "sqlite_appends", "sqlite_batches", "sqlite_recorder", "group_commit", "transaction")


def knows_sqlite(path: Path) -> set[str]:
    """Return the names in a module that belong to SQLite."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name == "sqlite3"}
        elif isinstance(node, ast.ImportFrom) and "store" in (node.module or "").split("."):
            names = {(node.module or "").rpartition(".")[2], *(name.name for name in node.names)}
            found |= {name for name in names if name.endswith(MODULES)}
        elif isinstance(node, ast.Attribute) and node.attr in WORDS:
            found.add(node.attr)
    return found


def test_only_what_is_about_sqlite_files_knows_sqlite() -> None:
    above = (path for path in PACKAGE.rglob("*.py") if "adapters/store/" not in path.as_posix())
    found = {path.relative_to(PACKAGE).as_posix(): knows_sqlite(path) for path in above}
    of_psycopg = found.pop("adapters/tables/postgres.py")

    assert of_psycopg == {"execute", "executemany"}  # of PostgreSQL's own driver
    assert {path for path, words in found.items() if words} == {*ABOUT_SQLITE}
