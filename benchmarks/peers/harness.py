"""Run a measure of the harness that compares conversation stores, on a copy of it that knows stenolog.

    python -m benchmarks.peers.harness [--harness FOLDER] [--into FOLDER] MEASURE [PEER...] [KEY=VALUE...]

The harness stands in `../shared/peerbench` beside the project unless `--harness` names another place. Its
measures are in its own README: check, turns, jump, alphabet, cold, travel, interleave, race, clock, crash.
`crash` takes `kills=N`. Its floors and stenolog run with this interpreter; any other peer needs an
environment that its `mkvenv.sh` made.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PEERS = {"stenolog": "Stenolog", "stenolog_32k": "Stenolog32k"}
LEFT_OUT = shutil.ignore_patterns("venvs", "data", "results", "__pycache__")
CRASH = "import sys; from bench.run import crash; crash(sys.argv[2:], 'ship', kills=int(sys.argv[1]))"
STARTER = '#!/bin/sh\nexec "{python}" "$@"\n'


def main(arguments: list[str]) -> int:
    asked, rest = parser().parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(asked.into or folder, "peerbench")
        prepare(asked.harness, copy)
        return subprocess.run(command(asked.measure, rest), cwd=copy, check=False).returncode


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.peers.harness")
    made.add_argument("measure", help="check, turns, jump, …: see the harness's README")
    made.add_argument("--harness", type=Path, default=ROOT.parent / "shared" / "peerbench")
    made.add_argument("--into", type=Path, help="keep the copy and its results there")
    return made


def command(measure: str, rest: list[str]) -> list[str]:
    """Return the command of a measure in the copy; the kills measure gets its number from Python alone."""
    options = dict(word.split("=", 1) for word in rest if "=" in word)
    if measure == "crash" and "kills" in options:
        peers = [word for word in rest if "=" not in word]
        return [sys.executable, "-c", CRASH, options["kills"], *(peers or PEERS)]
    return [sys.executable, "-m", "bench.run", measure, *rest]


def prepare(harness: Path, copy: Path) -> None:
    """Prepare a copy of the harness in which stenolog is registered, once."""
    if not (harness / "bench").is_dir():
        raise SystemExit(f"expected the harness in {harness}, found no folder bench there; see --harness")
    if copy.exists():
        return
    shutil.copytree(harness, copy, ignore=LEFT_OUT)
    shutil.copy(HERE / "harness_adapter.py", copy / "bench" / "adapters" / "stenolog_log.py")
    rows = "".join(
        f"PEERS[{name!r}] = ('stenolog', 'stenolog_log', {kind!r})\n" for name, kind in PEERS.items()
    )
    with (copy / "bench" / "registry.py").open("a") as registry:
        registry.write(f"\n{rows}")
    for name in ("floor", "stenolog"):
        starter = copy / "venvs" / name / "bin" / "python"
        starter.parent.mkdir(parents=True)
        starter.write_text(STARTER.format(python=sys.executable))
        starter.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
