"""What `.ci/run` runs again with ../shared, the mutants of `.ci/nightly`, and the action for others."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]


@cache
def beside() -> set[str]:
    """Return the test files that reach ../shared."""
    command = [sys.executable, str(ROOT / ".ci" / "beside")]
    return {*subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()}


def test_each_file_that_skips_tests_without_shared_runs_again_with_it() -> None:
    tests = {str(path.relative_to(ROOT)): path.read_text() for path in ROOT.glob("tests/**/test_*.py")}
    skipping = {
        path for path, text in tests.items() if "beside this checkout" in text or "needs_judges" in text
    }

    assert skipping - {"tests/test_ci.py"} <= beside()


def test_a_file_that_reaches_shared_through_what_it_imports_runs_again_and_others_do_not() -> None:
    assert (
        "tests/examples/test_tenex.py" in beside()
    )  # its harness asks the judges, and skips nothing without
    assert "tests/domain/test_codec.py" not in beside()


def test_every_module_has_a_folder_of_tests_for_its_mutants() -> None:
    mutants = runpy.run_path(str(ROOT / ".ci" / "mutants"))
    modules = [path.relative_to(ROOT) for path in (ROOT / "stenolog").rglob("*.py")]
    rooms = {name for path in modules for name in mutants["room"](str(path))}

    assert [name for name in rooms if not [*(ROOT / "tests" / name).glob("**/test_*.py")]] == []
    assert [room for room in (*mutants["CORE"], *mutants["TESTS"]) if not [*(ROOT / room).glob("*.py")]] == []


@pytest.mark.slow
def test_a_mutant_that_no_test_of_its_room_notices_is_listed(tmp_path: Path) -> None:
    files = {
        "stenolog/__init__.py": "",
        "stenolog/domain/__init__.py": "",
        "stenolog/domain/sums.py": "def more(x):\n    return x + 1\n\n\ndef less(x):\n    return x - y\n",
        "tests/domain/test_sums.py": "from stenolog.domain.sums import more\n\n"
        "def test_more():\n    assert more(1) == 2\n",
        "pytest.ini": "[pytest]\npythonpath = .\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    for command in ("init --quiet", "add ."):
        subprocess.run(["git", "-C", str(tmp_path), *command.split()], check=True)
    done = subprocess.run(
        [sys.executable, str(tmp_path / ".ci" / "mutants")], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()

    assert done.returncode == 1, done.stderr
    assert lines[-1].startswith("1 of 2 survive")
    assert [line.split()[1] for line in lines if "SURVIVES" in line] == ["stenolog/domain/sums.py:6"]
    assert [line.split()[0] for line in lines if ":2 `" in line] == ["tests/domain/test_sums.py::test_more"]


# The action in contrib/action, its steps run as GitHub's runner runs them.


ACTION: dict[str, Any] = yaml.safe_load((ROOT / "contrib" / "action" / "action.yml").read_text())
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
SAID = '{"role": "user", "content": "Bake."}\n'


def step(name: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step: its inputs are filled into its environment, and its script is a file for an old bash."""
    given = {key: each.get("default", "") for key, each in ACTION["inputs"].items()} | inputs
    filled = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], value)
        for key, value in STEPS[name]["env"].items()
    }
    temp = folder.parent / "temp"
    temp.mkdir(exist_ok=True)
    (script := temp / "step.sh").write_text(f"enable -n shopt mapfile readarray\n{STEPS[name]['run']}")
    runner = {"RUNNER_TEMP": str(temp), "GITHUB_ACTION_PATH": str(ROOT / "contrib" / "action")}
    env = {**os.environ, **runner, "GITHUB_WORKSPACE": str(folder), **filled}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a checkout with transcripts, for which the tests' own stenolog is installed."""
    (folder := tmp_path / "work").mkdir()
    (tmp_path / "temp").mkdir()
    (tmp_path / "temp" / "stenolog").symlink_to(sys.prefix)
    (folder / "glob.py").write_text("open('pwned', 'w')")
    for name in ("logs/deep/a b.jsonl", "logs/$(touch pwned).jsonl", "logs/`touch pwned`.jsonl", "-x.jsonl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SAID)
    return folder


def test_no_input_of_the_action_is_in_a_script() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for name, each in STEPS.items():
        assert "${{" not in each["run"], name
        assert each["shell"] == "bash"
    used = re.findall(r"inputs\.([\w-]+)", json.dumps([each["env"] for each in STEPS.values()]))
    assert sorted(used) == sorted(ACTION["inputs"])


def test_the_action_checks_the_files_that_patterns_name_whatever_is_in_their_names(workspace: Path) -> None:
    sound = step("Check", workspace, files="logs/**/*.jsonl\n\n-x.jsonl")
    (workspace / "logs" / "deep" / "a b.jsonl").write_text(f'{SAID}{{"role": "us\n')
    broken = step("Check", workspace, files="-x.jsonl\nlogs")

    assert (sound.returncode, sound.stdout) == (0, "4 checked: nothing found\n"), sound.stderr
    assert broken.returncode == 1
    assert broken.stdout.startswith("::error file=logs/deep/a b.jsonl,line=2,title=skipped::")
    settings = {"fail-on": "warning", "ignore": "skipped\n--fail-on=x"}
    assert step("Check", workspace, files="logs", **settings).returncode == 0
    assert not [*workspace.rglob("*pwned"), *workspace.parent.glob("*pwned")]


@pytest.mark.parametrize("files", ["$(touch pwned)", "`touch pwned`", "; touch pwned", "*.none", "--db=x"])
def test_an_input_is_never_run_and_what_names_no_file_is_refused(workspace: Path, files: str) -> None:
    done = step("Check", workspace, files=files, format="github")

    assert done.returncode in (2, 3)
    assert not [*workspace.glob("*pwned*")]


def test_a_report_goes_into_its_file_and_only_annotations_are_printed(workspace: Path) -> None:
    done = step("Check", workspace, files="logs", format="sarif", output="out/$(touch pwned).sarif")
    assert done.returncode == 1  # there is no such folder
    done = step("Check", workspace, files="logs", format="sarif", output="$(touch pwned).sarif")

    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads((workspace / "$(touch pwned).sarif").read_text())["version"] == "2.1.0"
    refused = step("Check", workspace, files="logs", format="junit")
    assert refused.returncode != 0
    assert "the format junit needs an output" in refused.stderr


@pytest.mark.slow
def test_the_action_installs_the_stenolog_that_it_came_with(tmp_path: Path) -> None:
    (folder := tmp_path / "work").mkdir()
    (folder / "said.jsonl").write_text(SAID)
    installed = step("Install", folder)
    assert installed.returncode == 0, installed.stderr
    checked = step("Check", folder, files="*.jsonl")

    assert (checked.returncode, checked.stdout) == (0, "1 checked: nothing found\n"), checked.stderr
