"""Above the store nothing knows SQLite or PostgreSQL, but for what is about these databases themselves."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import stenolog

PACKAGE = Path(stenolog.__file__).parent
ABOUT_SQLITE = {
    "adapters/importers/door/files.py": "reads databases of other programs",
    "contrib/adk/files.py": "reads databases of other programs",
    "contrib/cursor/database.py": "reads databases of other programs",
    "contrib/cursor/store.py": "reads databases of other programs",
    "contrib/deepseek_harness/files.py": "reads databases of other programs",
    "contrib/goose/files.py": "reads databases of other programs",
    "contrib/openai_agents.py": "reads databases of other programs",
    "contrib/opencode/database.py": "reads databases of other programs",
    "contrib/langgraph/thread_messages.py": "reads databases of other programs",
    "contrib/workflow/files.py": "reads databases of other programs",
    "contrib/workflow/databases.py": "writes an application's own tables, in SQLite among others",
    "apps/cli/framework.py": "tells a damaged file from other errors, and names what mends one",
    "adapters/tables/sqlite.py": "writes the user's tables, in the log's own database where it is in SQLite",
    "testing/crash_points.py": "copies the file at each commit",
    "adapters/conversation/opening.py": "opens a log in SQLite or in PostgreSQL",
    "adapters/conversation/search/indexing.py": "keeps the index of words, a file of SQLite's",
    "adapters/conversation/verifying/integrity.py": "restores a copy of a file",
    "adapters/conversation/verifying/salvage.py": "reads the pages of a damaged file, and writes a new one",
    "adapters/conversation/verifying/trace.py": "looks for a value in the tables beside the log",
}
"""What may know SQLite, and why."""
ABOUT_POSTGRES = {
    "adapters/tables/postgres.py": "keeps the user's tables in PostgreSQL up to date",
    "apps/workers/job_schema.py": "makes the tables of the queue, beside the log's",
    "apps/workers/procrastinate_queue.py": "speaks to Procrastinate, whose errors are the driver's",
    "apps/workers/queues.py": "gives the queue and the registry the store of a log in PostgreSQL",
    "apps/workers/status.py": "reads who works, and which sessions hold followers back",
    "apps/workers/worker_rows.py": "keeps who works in a table beside the jobs",
}
"""What may know PostgreSQL, and why."""
STORE = "adapters/store/"
SQLITE = "stenolog.adapters.store.sqlite"
WORDS = {"datastore", "execute", "executemany"}
SIGNS = re.compile("|".join({"sqlite3", SQLITE, *WORDS}))


def knows_psycopg(path: Path) -> bool:
    """Return whether a module imports the driver of PostgreSQL, at its top or late."""
    text = path.read_text()
    tree = ast.walk(ast.parse(text)) if "psycopg" in text else ()
    imports = [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)]
    return any("psycopg" in name for node in imports for name in imported(node))


def imported(node: ast.Import | ast.ImportFrom | ast.Call) -> list[str]:
    """Return what a statement imports; of a call, what it may import by name."""
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    words = [word.value for word in node.args if isinstance(word, ast.Constant)]
    return [str(word) for word in words] if function == "import_module" else []


def knows_sqlite(path: Path) -> set[str]:
    """Return the names in a module that belong to SQLite."""
    found, text = set(), path.read_text()
    for node in ast.walk(ast.parse(text)) if SIGNS.search(text) else ():
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name == "sqlite3"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(SQLITE):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.Attribute) and node.attr in WORDS:
            found.add(node.attr)
    return found


def above() -> dict[str, Path]:
    """Return the modules above the stores, by their paths in the package."""
    found = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    return {name: path for name, path in found.items() if not name.startswith(STORE)}


def test_only_what_is_about_postgres_knows_its_driver() -> None:
    found = {name for name, path in above().items() if knows_psycopg(path)}

    assert found <= {*ABOUT_POSTGRES}


def test_a_log_in_sqlite_needs_no_driver_of_postgres() -> None:
    code = "import sys, stenolog; stenolog.open(':memory:'); print('psycopg' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "False\n"


def test_only_what_is_about_sqlite_files_knows_sqlite() -> None:
    found = {name: knows_sqlite(path) for name, path in above().items()}
    of_psycopg = [found.pop(name) for name in ABOUT_POSTGRES]

    assert all(words <= WORDS for words in of_psycopg)  # of PostgreSQL's own driver
    assert {path for path, words in found.items() if words} == {*ABOUT_SQLITE}
