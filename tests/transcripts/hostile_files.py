"""Hostile files of every kind, made anew each time, and a program that imports them within limits."""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import zstandard

import stenolog
from stenolog.importers import Refused, import_files
from tests.transcripts.given import lines, user

MIB = 1024 * 1024
MEMORY = 768 * MIB
"""The address space beyond that of a fresh process."""
LARGEST_FILE = 80 * MIB
SECONDS = 60
"""What shows that a file is never done with; most take milliseconds."""
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT"
TABLES = {
    "goose": {
        "sessions": "id, name, description, working_dir, created_at, updated_at, extension_data",
        "messages": "id, session_id, role, content_json, created_timestamp, timestamp, metadata_json, tokens",
    },
    "opencode": {
        "session": "id, project_id, parent_id, directory, title, version, time_created",
        "message": "id, session_id, data",
        "part": "id, message_id, session_id, data",
    },
    "agents": {
        "agent_sessions": "session_id, created_at, updated_at",
        "agent_messages": "id, session_id, message_data, created_at",
    },
    "adk": {
        "sessions": "app_name, user_id, id, state, create_time, update_time",
        "events": "id, app_name, user_id, session_id, timestamp, event_data",
    },
    "langgraph": {
        "checkpoints": "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint",
        "writes": "thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value",
    },
    "dsh": {
        "persistence_state": "store_id",
        "sessions": "id, version, created_at, incarnation",
        "events": "session_id, seq, type, time, data, surface_op, ignorable",
    },
    "cursor": {"cursorDiskKV": "key, value"},
    "cursor-store": {"meta": "key, value", "blobs": "id, data"},
    "workflow": {"conversation_messages": "workflowId, role, content, createdAt"},
}
"""The tables that importers look for."""


def session(words: str = "Hi", count: int = 3) -> bytes:
    return lines(*(user(f"u{n}", f"u{n - 1}" if n else None, f"{words} {n}") for n in range(count)))


def bombs() -> Iterator[tuple[str, bytes]]:
    """Yield small files that become large ones."""
    member = gzip.compress(bytes(16 * MIB))
    frame = zstandard.compress(bytes(16 * MIB), 3)
    spaces = zstandard.compress(b" " * 16 * MIB, 3)
    yield "zeros.jsonl.gz", member * 6
    yield "zeros.jsonl.zst", frame * 60
    yield "spaces.jsonl.zst", spaces * 60
    yield "session-then-zeros.gz", gzip.compress(session()) + member * 6
    yield "session-then-zeros.zst", zstandard.compress(session()) + frame * 60
    yield "twice.gz", gzip.compress(gzip.compress(member * 3))
    yield "one-line.zst", zstandard.compress(b'{"type":"user","message":{"content":"' + b"x" * 63 * MIB)
    yield "window.zst", b"\x28\xb5\x2f\xfd\x00\xff" + frame[6:]
    yield "window-128.zst", b"\x28\xb5\x2f\xfd\x00\x88" + b"\x02\x00\x80" + bytes(100)
    yield "declared.zst", b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + bytes(50)
    made = zlib.compressobj(9, zlib.DEFLATED, 31)
    yield "sqlite.gz", made.compress(b"SQLite format 3\0" + bytes(63 * MIB)) + made.flush()
    yield "members.gz", gzip.compress(b"") * 20_000
    yield "frames.zst", zstandard.compress(b"") * 20_000


def documents() -> Iterator[tuple[str, bytes]]:
    """Yield JSON, YAML, TOML and CSV that takes more than its bytes."""
    yield "brackets.jsonl", b"[" * 3_000_000
    yield "objects.jsonl", b'{"type":"user","message":' * 200_000
    yield "closed.json", b'{"a":' * 5_000 + b"1" + b"}" * 5_000
    yield "digits.jsonl", b'{"type":"user","timestamp":' + b"9" * 200_000 + b',"message":{"content":"x"}}\n'
    yield "exponent.jsonl", b'{"type":"user","timestamp":1e999999,"message":{"content":"x"}}\n'
    yield "lists.json", b"[" + b"[]," * 3_000_000 + b"[]]"
    yield "lists.jsonl", b'{"a":[' + b"{}," * 3_000_000 + b"{}]}\n"
    yield "glued.jsonl", b'{"type":"user","message":{"role":"user","content":"\\u00e9"}}' * 5_000
    yield "empty-objects.jsonl", b"{}" * 3_000_000
    yield "surrogates.jsonl", b'{"type":"user","message":{"content":"' + b"\\ud800" * 100_000 + b'"}}\n'
    yield "long.jsonl", b'{"type":"user","message":{"content":"' + b"x" * 40 * MIB + b'"}}\n'
    yield "nul.jsonl", bytes(5 * MIB)
    yield "utf-16.jsonl", session().decode().encode("utf-16")
    yield "names.jsonl", lines(*({"type": "user", f"k{n}": n, "message": {}} for n in range(5_000)))
    yield "same-name.json", b"{" + b'"history":1,' * 300_000 + b'"a":1}'
    levels = (f"b{n}: &b{n} [{', '.join([f'*b{n - 1}' if n else 'x'] * 9)}]\n" for n in range(12))
    history = "history:\n  - role: user\n    content: "
    yield "aliases.demo.yaml", ("".join(levels) + history + "*b11\n").encode()
    yield "deep.yaml", (history + "[" * 50_000).encode()
    yield "base60.yaml", (history + "1" + ":59" * 1_000_000 + "\n").encode()
    yield "base60.5.yaml", (history + "1" + ":59" * 1_000_000 + ".5\n").encode()
    yield "hex.yaml", (history + "0x" + "f" * 3_000_000 + "\n").encode()
    yield "many.yaml", (history + "x\n" + "  - a\n" * 1_100_000).encode()
    yield "tag.yaml", (history + "!!python/object/apply:os.system ['exit 1']\n").encode()
    yield "anchors.yaml", (history + "&a [" + "&b x, " * 1_000 + "*b]\n").encode()
    yield "date.yaml", (history + "9999-99-99T99:99:99Z\n").encode()
    task = [{"role": "user", "content": [{"type": "text", "text": "<task>" + "<task " * 200_000}]}]
    yield "tags.json", json.dumps(task, separators=(",", ":")).encode()
    yield "field.csv", b"workflowId,role,content\n1,user," + b"x" * 33 * MIB
    yield "quote.csv", b'workflowId,role,content\n1,user,"' + b"x\n" * 1_000_000


def databases(folder: Path, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield SQLite files whose schema or pages are not what an importer expects."""
    for program, tables in TABLES.items():
        for kind in ("endless", "generated", "virtual", "nested", "damaged", "values"):
            yield f"{program}-{kind}.db", database(folder, lambda run: SCHEMAS[kind](run, tables))  # noqa: B023
    many = [f"CREATE TABLE t{n} (a)" for n in range(12_000)]
    yield "schema.db", database(folder, lambda run: [run(statement) for statement in many])
    sound = database(folder, lambda run: filled(run, TABLES["goose"]))
    random = Random(4)
    for nth in range(count):
        yield f"bits-{nth}.db", flipped(sound, random)
    for nth in range(count // 3):
        yield f"cut-{nth}.db", sound[: random.randrange(len(sound))]
    for nth in range(count // 3):  # pages that are named twice, so that a tree has rows without end
        yield f"pages-{nth}.db", swapped(sound, random)


def database(folder: Path, make: Callable[[Callable[[str], object]], object]) -> bytes:
    path = folder / "made.db"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        make(connection.execute)
        connection.execute("COMMIT")
    content = path.read_bytes()
    path.unlink()
    return content


def endless(run: Callable[[str], object], tables: dict[str, str]) -> None:
    for table, columns in tables.items():
        run(f"CREATE VIEW {table} AS {ENDLESS} {', '.join(f'x AS {c}' for c in columns.split(', '))} FROM c")


def generated(run: Callable[[str], object], tables: dict[str, str]) -> None:
    for table, columns in tables.items():
        *first, last = columns.split(", ")
        huge = f"{last} TEXT GENERATED ALWAYS AS (hex(zeroblob(60000000)))"
        run(f"CREATE TABLE {table} ({', '.join([*first, 'more', huge])})")
        run(f"INSERT INTO {table} (more) VALUES (1)")


def virtual(run: Callable[[str], object], tables: dict[str, str]) -> None:
    for table, columns in tables.items():
        run(f"CREATE VIRTUAL TABLE {table} USING fts5({columns.replace('rank', 'r')})")


def nested(run: Callable[[str], object], tables: dict[str, str]) -> None:
    run("CREATE VIEW v0 AS SELECT 1 AS x")
    for n in range(1, 40):
        run(f"CREATE VIEW v{n} AS SELECT a.x FROM v{n - 1} a, v{n - 1} b")
    for table, columns in tables.items():
        run(f"CREATE VIEW {table} AS SELECT {', '.join(f'x AS {c}' for c in columns.split(', '))} FROM v39")


def values(run: Callable[[str], object], tables: dict[str, str]) -> None:
    for table, columns in tables.items():
        run(f"CREATE TABLE {table} ({columns})")
        for value in (
            "x'00ff'",
            "9e999",
            "-1",
            "NULL",
            "'" + "[" * 10_000 + "'",
            "zeroblob(1000000)",
            "1e300",
        ):
            row = ", ".join([value] * len(columns.split(", ")))
            run(f"INSERT INTO {table} VALUES ({row})")


def damaged(run: Callable[[str], object], tables: dict[str, str]) -> None:
    """Tell the schema that a view is a table."""
    endless(run, tables)
    run("PRAGMA writable_schema = ON")
    run("UPDATE sqlite_master SET type = 'table', rootpage = 1")


def filled(run: Callable[[str], object], tables: dict[str, str]) -> None:
    for table, columns in tables.items():
        run(f"CREATE TABLE {table} ({columns})")
        many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 800) SELECT"
        run(f"INSERT INTO {table} {many} {', '.join(['x'] * len(columns.split(', ')))} FROM c")


SCHEMAS = {each.__name__: each for each in (endless, generated, virtual, nested, damaged, values)}


def flipped(content: bytes, random: Random) -> bytes:
    made = bytearray(content)
    for _ in range(random.choice((1, 1, 8, 100))):
        made[random.randrange(min(len(made), random.choice((100, 8_192, len(made)))))] ^= (
            1 << random.randrange(8)
        )
    return bytes(made)


def swapped(content: bytes, random: Random, page: int = 4_096) -> bytes:
    """Return a database in which a page stands in the place of others: a child is its own parent, say."""
    made = bytearray(content)
    for _ in range(4):
        one, other = (random.randrange(1, len(made) // page) * page for _ in range(2))
        made[one : one + page] = made[other : other + page]
    return bytes(made)


def damaged_files(count: int) -> Iterator[tuple[str, bytes]]:
    """Yield files that were sound: bits flipped, cut, or both, plain or compressed."""
    random = Random(7)
    sound = session("words " * 40, 50)
    forms = {"jsonl": sound, "gz": gzip.compress(sound), "zst": zstandard.compress(sound)}
    for nth in range(count):
        form, content = random.choice([*forms.items()])
        cut = content[: random.randrange(len(content))] if nth % 2 else content
        yield f"damaged-{nth}.{form}", flipped(cut + b"\n", random)


def others(folder: Path) -> Iterator[Path]:
    """Make what is no regular file, and files beside one that are none; yield what is to be imported."""
    (folder / "loop").symlink_to("loop")
    (folder / "zero.jsonl").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "agent-1.jsonl").write_bytes(session())
    os.mkfifo(folder / "agent-1.meta.json")
    for name, mapping in (
        ("nested", "a = " + "[" * 100_000),
        ("huge", "#" * 30 * MIB),
        ("int", "a = " + "9" * 9_999),
    ):
        (folder / f"{name}.jsonl").write_text('{"who":"me","said":"x"}\n')
        (folder / f"{name}.mapping.toml").write_text(mapping)
        yield folder / f"{name}.jsonl"
    yield from (folder / name for name in ("loop", "zero.jsonl", "pipe.jsonl", "agent-1.jsonl"))
    inside = folder / "folder"
    inside.mkdir()
    (inside / "up").symlink_to(folder)
    (inside / "out").symlink_to("/dev")
    yield inside


def make(folder: Path, count: int) -> list[Path]:
    """Write all of them into a folder, of random ones so many of each kind; return their paths."""
    there = [*others(folder)]
    for made in (bombs(), documents(), databases(folder, count), damaged_files(count * 2)):
        for name, content in made:
            (folder / name).write_bytes(content)
            there.append(folder / name)
    return there


def import_all(files: list[str]) -> None:
    """Import each of the files within limits of memory, file size and time, and print what became of it."""
    with stenolog.open(":memory:") as log:
        list(import_files(log, [__file__]))  # so that what is imported late is there
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + MEMORY,) * 2)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE,) * 2)
    for file in files:
        signal.alarm(SECONDS)
        print(json.dumps([file, ""]), flush=True)
        with stenolog.open(":memory:") as log:
            try:
                (what,) = import_files(log, [file])
                told = f"refused: {what.error!r}" if isinstance(what, Refused) else f"read as {what.format}"
            except BaseException as error:
                told = f"raised {error!r}"
        print(json.dumps([file, told]), flush=True)


if __name__ == "__main__":
    import_all(sys.argv[1:])
