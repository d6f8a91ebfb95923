"""README, docs and docstrings run as tests: each block is one test, each file one namespace and folder.

The conventions of `console` blocks are in CONTRIBUTING.md.
"""

from __future__ import annotations

import contextlib
import difflib
import gc
import io
import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from pathlib import Path
from typing import Any

import freezegun
import hypothesis
import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser
from sybil.sybil import SybilCollection

ROOT = Path(__file__).parent
# Cohere's SDK imports its models when freezegun looks for dates in it, and they do not build of frozen ones.
freezegun.configure(extend_ignore_list=["cohere"])
# The same examples everywhere, and no test measures time. `.ci/nightly` asks for many more, and random ones.
hypothesis.settings.register_profile(
    "stenolog", max_examples=20, derandomize=True, deadline=None, database=None
)
hypothesis.settings.register_profile("nightly", max_examples=1_000, deadline=None, database=None)
hypothesis.settings.load_profile("stenolog")
OWN_LOOP = "how-to/own-loop.md"
PLAIN = {"COLUMNS": "100", "NO_COLOR": "1"}


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Give each worker of pytest-xdist whole files, since the blocks of a document share a namespace."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "loadfile"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that has the tests' logs kept in PostgreSQL."""
    parser.addoption(
        "--log",
        choices=("sqlite", "postgresql"),
        default="sqlite",
        help="Where logs are that a test opens by a path: in files, or on a server of the tests' own.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep every test away from the database of whoever runs it; before a module reads the environment."""
    patch = pytest.MonkeyPatch()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job ignores
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _keep_files_in_memory(patch)
    home = tempfile.TemporaryDirectory(prefix="stenolog-home-", ignore_cleanup_errors=True)
    patch.setenv("XDG_DATA_HOME", home.name)
    patch.delenv("STENOLOG_DB", raising=False)
    patch.setenv("STENOLOG_EDITOR", "none")  # else the one in whose terminal the tests are run
    patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # else each program that runs compiles all anew
    config.add_cleanup(home.cleanup)
    config.add_cleanup(patch.undo)
    # Of pytest-xdist, the process that hands out the tests runs none.
    if config.option.log == "postgresql" and not getattr(config.option, "numprocesses", None):
        from tests.postgres.in_schemas import served

        stack = contextlib.ExitStack()
        config.add_cleanup(stack.close)
        for name, value in stack.enter_context(served()).items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    gc.disable()  # while tests are collected: nothing of that is garbage


def pytest_xdist_auto_num_workers() -> int:
    """Let `-n auto` start three workers for two processors: tests wait a third of their time."""
    return max(1, len(os.sched_getaffinity(0)) * 3 // 2 if hasattr(os, "sched_getaffinity") else 2)


def _keep_files_in_memory(patch: pytest.MonkeyPatch) -> None:
    """Keep temporary files in memory, if there is room: a test waits for no disk then, only for itself."""
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not memory.is_dir() or shutil.disk_usage(memory).free < 4 << 30:
        return
    patch.setenv("TMPDIR", str(memory))
    patch.setenv("PYTEST_DEBUG_TEMPROOT", str(memory))
    patch.setattr(tempfile, "tempdir", None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark nightly tests as slow too; with `--log postgresql`, skip what is about SQLite's file."""
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker("slow")
    for item in items if config.option.log == "postgresql" else ():
        if marker := item.get_closest_marker("about_file"):
            item.add_marker(pytest.mark.skip(f"it is about SQLite: {marker.args[0]}"))


def pytest_collection_finish() -> None:
    """Keep the thousands of collected tests out of every garbage collection to come."""
    gc.freeze()
    gc.enable()


def pytest_report_header(config: pytest.Config) -> str:
    """Say how long all the tests take, and which of them this run leaves out."""
    if config.option.markexpr != "not slow":
        return "stenolog: all tests take about 21 minutes on two idle cores, 6 without those marked slow"
    return (
        "stenolog: all tests but those marked slow take about 7 minutes on two idle cores;\n"
        "          -m 'slow and not nightly' runs the others (kills, corpus, fuzz), in about 15"
    )


def registries_as_they_are() -> contextlib.ExitStack:
    """Return a stack whose closing takes back what has been registered since."""
    from stenolog import plugins

    plugins.load_plugins()
    stack = contextlib.ExitStack()
    for found in (getattr(plugins, name) for name in plugins.__all__):
        if isinstance(found, plugins.Registry):
            stack.enter_context(found.restored())
    return stack


@pytest.fixture(autouse=True, scope="module")
def nothing_stays_registered() -> Iterator[None]:
    """Keep what a test module registers from the modules behind it."""
    with registries_as_they_are():
        yield


@pytest.fixture(autouse=True)
def no_schema_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Remove a test's logs from the server that `--log postgresql` runs."""
    if request.config.option.log != "postgresql":
        yield
        return
    from tests.postgres.in_schemas import dropped

    with dropped():
        yield


@pytest.fixture(autouse=True, scope="session")
def every_request_is_built_again() -> Iterator[None]:
    """Have the engine check each call at dispatch, as `--paranoid` does."""
    from stenolog.adapters.engine.model_calls import dispatch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "SAMPLED", 1.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_bundle_of_authorities_is_read() -> Iterator[None]:
    """Trust none of the world's certificate authorities: no test asks a server that has one's certificate.

    Each client of an SDK reads 150 of them, which took a twelfth of all tests' time.
    """
    load = ssl.SSLContext.load_verify_locations

    def load_few(self: ssl.SSLContext, cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        if cadata or (cafile and os.path.getsize(cafile) < 50_000):
            load(self, cafile, None, cadata)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", load_few)
        patch.setattr(ssl.SSLContext, "load_default_certs", lambda self, *args: None)
        yield


def in_a_folder_of_its_own(namespace: dict[str, Any]) -> None:
    """Run each document in an empty folder, as after `pip install` alone."""
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    patch = pytest.MonkeyPatch()
    patch.chdir(folder.name)
    for name, value in PLAIN.items():
        patch.setenv(name, value)
    patch.setenv("XDG_DATA_HOME", str(Path(folder.name, "data")))
    patch.delenv("STENOLOG_DB", raising=False)
    patch.setenv("STENOLOG_EDITOR", "none")  # else the one in whose terminal the tests are run
    namespace["__patch__"] = patch
    namespace["__undo__"] = (patch.undo, folder.cleanup, registries_as_they_are().close)


def in_a_checkout(namespace: dict[str, Any]) -> None:
    """Run a document as `in_a_folder_of_its_own`, with the project's `docs` in it."""
    in_a_folder_of_its_own(namespace)
    Path("docs").symlink_to(ROOT / "docs")


def beside_a_provider(namespace: dict[str, Any]) -> None:
    """Run a document as `in_a_folder_of_its_own`, where the SDKs ask a server that answers by rule."""
    from tests.llms.server import Server
    from tests.llms.stand_in import answered, environment

    in_a_folder_of_its_own(namespace)
    stack = contextlib.ExitStack()
    server = stack.enter_context(Server(answered))
    for name, value in environment(server).items():
        namespace["__patch__"].setenv(name, value)
    namespace["__undo__"] = (stack.close, *namespace["__undo__"])


def back_again(namespace: dict[str, Any]) -> None:
    """Undo `in_a_folder_of_its_own`."""
    for undo in namespace["__undo__"]:
        undo()


def console(example: Example) -> str | None:
    """Run the commands of a block and compare what they print."""
    for command, expected in _commands(example.parsed):
        if assignment := re.fullmatch(r"export (\w+)=(\S+)", command):
            example.namespace["__patch__"].setenv(*assignment.groups())
        if not command.startswith("stenolog"):
            continue  # .ci/run covers what installs and tests
        found = _shell(command) if re.search(r"[|<>;&$]", command) else _here(shlex.split(command)[1:])
        expected, found = masked(expected), masked(found.rstrip())
        if not re.fullmatch(_pattern(expected), found):
            lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "expected", "found")
            return f"$ {command}\n" + "\n".join(line.rstrip() for line in lines)
    return None


def masked(text: str) -> str:
    """Return the text without what differs in each run: digests and new ids, dates and times of day."""
    text = re.sub(r"\b[0-9a-f]{12,64}\b", "<digest>", text)
    return re.sub(r"\b\d\d:\d\d(:\d\d)?\b", "<time>", re.sub(r"\b\d{4}-\d\d-\d\d\b", "<date>", text))


def _commands(block: str) -> list[tuple[str, str]]:
    """Return the commands behind `$ `, each with the text below it up to the next one."""
    pieces = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    split = [piece.replace("\\\n", "").partition("\n") for piece in pieces]
    return [(command.strip(), output.rstrip()) for command, _, output in split]


def _pattern(expected: str) -> re.Pattern[str]:
    """Return a pattern of the expected text, in which `...` stands for anything."""
    return re.compile(".*".join(re.escape(piece) for piece in expected.split("...")), re.DOTALL)


def _here(arguments: list[str]) -> str:
    """Return the output of the command line, run in this process, with a status other than 0."""
    from stenolog.apps.cli import run

    with io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) as out:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = run(arguments)
        printed = out.buffer.getvalue().decode()
    return printed + (f"[{status}]\n" if status else "")


def _shell(command: str) -> str:
    """Return the output of a line of shell, with this interpreter's `stenolog`, installed or not."""
    ours = f'stenolog() {{ {shlex.quote(sys.executable)} -m stenolog "$@"; }}; {command}'
    paths = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        ["bash", "-c", ours], env={**os.environ, **paths}, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr + (f"[{done.returncode}]\n" if done.returncode else "")


def _markdown(
    path: str,
    *patterns: str,
    excludes: tuple[str, ...] = (),
    setup: Callable[[dict[str, Any]], None] = in_a_folder_of_its_own,
) -> Sybil:
    return Sybil(
        parsers=[
            PythonCodeBlockParser(doctest_optionflags=ELLIPSIS),
            CodeBlockParser(language="console", evaluator=console),
            SkipParser(),
        ],
        path=path,
        patterns=patterns,
        excludes=excludes,
        setup=setup,
        teardown=back_again,
    )


docstrings = Sybil(
    parsers=[DocTestParser(optionflags=ELLIPSIS | NORMALIZE_WHITESPACE)],
    path="stenolog",
    patterns=["*.py"],
    setup=in_a_folder_of_its_own,
    teardown=back_again,
)
_collected = SybilCollection(
    [
        _markdown(".", "README.md", setup=in_a_checkout),
        _markdown("docs", "*.md", excludes=(OWN_LOOP,)),
        _markdown("docs", OWN_LOOP, setup=beside_a_provider),
        docstrings,
    ]
).pytest()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a document, and those modules that have an example: few have, and to parse all takes long."""
    if file_path.suffix == ".py" and b">>> " not in file_path.read_bytes():
        return None
    found: pytest.Collector | None = _collected(file_path, parent)
    return found
