"""The client in TypeScript, built by its own npm script: once for each state of its sources."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

from tests import npm
from tests.forked import python

PACKAGE = Path(__file__).parents[2] / "clients" / "typescript"
README = PACKAGE / "README.md"
COPIED = ("package.json", "tsconfig.json", "README.md", "src", "examples")


def built(*more: tuple[str, str]) -> Path:
    """Return a copy of the package that is compiled; `more` are further files of it, each with its text."""
    packages = npm.installed(PACKAGE, "the client in TypeScript") / "node_modules"
    sources = [PACKAGE / name for name in COPIED]
    files = sorted(each for source in sources for each in (source, *source.rglob("*")) if each.is_file())
    state = sha256(b"\0".join(each.read_bytes() for each in files) + repr(more).encode()).hexdigest()[:12]
    # Not in node_modules: there the compiler takes no source for the package itself.
    folder = PACKAGE / "dist" / f"test-{state}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        making = Path(mkdtemp(dir=folder.parent, prefix=".making-"))
        try:
            for each in files:
                copy = making / each.relative_to(PACKAGE)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(each, copy)
            for name, text in more:
                (making / name).write_text(text, "utf-8")
            (making / "node_modules").symlink_to(packages)
            done = subprocess.run(("npm", "run", "build"), cwd=making, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout
            making.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was first
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder


def agent() -> list[str]:
    """Return the command of the example program."""
    return ["node", str(built() / "dist" / "examples" / "agent.js")]


PROLOGUE = """
import { Client, StenologError } from "stenolog";
const { SERVICE_URL, STENOLOG_TOKEN, STENOLOG, DB } = process.env;
const log = SERVICE_URL
  ? Client.http(SERVICE_URL, STENOLOG_TOKEN)
  : Client.stdio({ command: STENOLOG.split(" "), db: DB });
const conversation = "demo";
const said = (text, id) => ({ kind: "user_message", event: { text }, ...(id && { id }) });
const print = (value) => console.log(JSON.stringify(value));
"""


def program(folder: Path, text: str, name: str = "program.mjs") -> list[str]:
    """Return the command of a program that has the client as a package, as `log`; it is closed at the end."""
    package = folder / "node_modules" / "stenolog"
    if not package.exists():
        package.parent.mkdir(exist_ok=True)
        package.symlink_to(built())
    file = folder / name
    file.write_text(f"{PROLOGUE}\n{text}\nawait log.close();\n", "utf-8")
    return ["node", str(file)]


TOKEN = "correct horse"
COMMAND = f"{sys.executable} -m stenolog"


@contextmanager
def served(db: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a service over HTTP, and yield its process and its address."""
    command = [*COMMAND.split(), "serve", "--port", str(port), "--db", str(db)]
    env = {**os.environ, "STENOLOG_TOKEN": TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


def environment(db: Path, url: str = "", command: str = COMMAND) -> dict[str, str]:
    """Return the environment of a program: over standard input, or over HTTP where there is an address.

    `command` starts stenolog; by itself where a test kills it.
    """
    return {**os.environ, "STENOLOG": command, "DB": str(db), "STENOLOG_TOKEN": TOKEN, "SERVICE_URL": url}


def forked() -> str:
    """Return a command of stenolog that starts faster."""
    return " ".join(python("-m", "stenolog"))
