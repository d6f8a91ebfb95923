"""Sessions of opencode made up for the tests, the storages they are written to, and what is read of them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from stenolog import Log
from stenolog.importers import Report, import_file
from tests.transcripts.given import Json

T0 = 1_767_323_045_000
"""Milliseconds: the time of second 0."""


def at(second: int, end: int | None = None) -> Json:
    return {"start": T0 + 1000 * second, **({} if end is None else {"end": T0 + 1000 * end})}


class Message:
    """One message: its data, and its parts by their ids."""

    def __init__(self, id: str, second: int, role: str, *parts: Json, session: str = "ses_1", **info: Any):
        time = {"created": T0 + 1000 * second}
        if role == "assistant" and "error" not in info and not info.pop("open", False):
            time["completed"] = time["created"] + 900
        self.id = id
        self.session = session
        self.info: Json = {"id": id, "sessionID": session, "role": role, "time": time, **info}
        named = ({"id": f"prt_{id[4:]}_{nth}", **part} for nth, part in enumerate(parts))
        self.parts = [{"sessionID": session, "messageID": id, **part} for part in named]


def user(id: str, second: int, *parts: Json | str, **info: Any) -> Message:
    found = (text(part) if isinstance(part, str) else part for part in parts)
    return Message(id, second, "user", *found, agent="build", **info)


def answer(id: str, second: int, *parts: Json | str, **info: Any) -> Message:
    found = (text(part) if isinstance(part, str) else part for part in parts)
    about = {"modelID": "gpt-x", "providerID": "openai", "agent": "build", "mode": "build"}
    return Message(id, second, "assistant", *found, **{**about, **info})


def text(words: str, **fields: Any) -> Json:
    return {"type": "text", "text": words, **fields}


def call(id: str, tool: str = "bash", second: int = 3, output: str | None = "done", **given: Any) -> Json:
    """Return a call with its result; without one where `output` is None."""
    state: Json = {"status": "running", "input": given, "time": at(second)}
    if output is not None:
        state |= {"status": "completed", "output": output, "time": at(second, second + 1)}
    return {"type": "tool", "callID": id, "tool": tool, "state": state}


def finish(reason: str = "stop", **tokens: Any) -> Json:
    cache = {"read": 5, "write": 2}
    counted = {"input": 10, "output": 4, "reasoning": 1, "cache": cache, "total": 22, **tokens}
    return {"type": "step-finish", "reason": reason, "cost": 0.0012, "tokens": counted}


def session(id: str = "ses_1", **info: Any) -> Json:
    time = {"created": T0, "updated": T0}
    told = {"projectID": "prj", "directory": "/home/user/shop", "title": "the bell", "version": "1.2.3"}
    return {"id": id, **told, "time": time, **info}


def write_folder(path: Path, sessions: list[Json], messages: list[Message]) -> Path:
    """Write a storage folder, and return it."""
    for each in sessions:
        _write(path / "session" / "prj" / f"{each['id']}.json", each)
    for message in messages:
        _write(path / "message" / message.session / f"{message.id}.json", message.info)
        for part in message.parts:
            _write(path / "part" / message.id / f"{part['id']}.json", part)
    return path


def _write(path: Path, value: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))


TABLES = """
CREATE TABLE IF NOT EXISTS session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT,
    title TEXT, version TEXT, revert TEXT, time_created INTEGER);
CREATE TABLE IF NOT EXISTS message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE IF NOT EXISTS part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
CREATE TABLE IF NOT EXISTS session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER,
    data TEXT);
"""


def write_database(path: Path, sessions: list[Json], messages: list[Message]) -> Path:
    """Write a database, and return it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
        connection.execute("PRAGMA journal_mode = WAL")
        for each in sessions:
            revert = json.dumps(each["revert"]) if "revert" in each else None
            row = [each["id"], "prj", each.get("parentID"), each["directory"], each["title"], "1.2.3", revert]
            connection.execute("INSERT OR REPLACE INTO session VALUES (?,?,?,?,?,?,?,?)", (*row, T0))
        for message in messages:
            info = {name: value for name, value in message.info.items() if name not in ("id", "sessionID")}
            row = [message.id, message.session, info["time"]["created"], json.dumps(info)]
            connection.execute("INSERT OR REPLACE INTO message VALUES (?,?,?,?)", row)
            for part in message.parts:
                told = {
                    name: value
                    for name, value in part.items()
                    if name not in ("id", "messageID", "sessionID")
                }
                row = [part["id"], message.id, message.session, json.dumps(told)]
                connection.execute("INSERT OR REPLACE INTO part VALUES (?,?,?,?)", row)
        connection.commit()
    return path


TALK = [
    user("msg_1", 1, "List it."),
    answer(
        "msg_2",
        2,
        {"type": "step-start"},
        {"type": "reasoning", "text": "Hm.", "metadata": {"openai": {"itemId": "rs_1"}}, "time": at(2, 3)},
        "I look.",
        call("c1", command="ls", output="a.txt"),
        finish("tool-calls"),
        finish="tool-calls",
    ),
    answer("msg_3", 5, {"type": "step-start"}, "One file.", finish(), finish="stop"),
]


def taken(log: Log, path: Path) -> Report:
    """Import a storage twice: the second time adds nothing. Return the first report."""
    report = import_file(log, path)
    again = import_file(log, path)
    assert [one.failed for one in report.conversations if one.failed] == []
    assert sum(one.appended for one in again.conversations) == 0
    return report


def events(log: Log, name: str = "ses_1") -> list[Any]:
    return [entry.event for entry in log[name] if entry.event.kind != "mode_switch"]


def shown(log: Log, *words: str, agent: str = "opencode", name: str = "ses_1") -> list[bool]:
    body = str(log[name].request(agent, api="anthropic").body)
    return [each in body for each in words]
