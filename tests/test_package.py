"""What the package brings: sample files, addresses, and a README that can be read on its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SOURCE = PROJECT["project"]["urls"]["Source"]
IN_THE_REPOSITORY = re.compile(rf"{re.escape(SOURCE)}/(?:blob|raw)/main/([^#]+)")
SAMPLES = "docs/examples"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMPANIONS = {
    "pydantic_core": "pydantic",
    "typing_extensions": "pydantic",
    "markupsafe": "jinja2",
    "httpx": "python-telegram-bot",
    "langchain_core": "langgraph",
    "ormsgpack": "langgraph-checkpoint",
    "mcp_types": "mcp",
    "anyio": "mcp",
    "pydantic_graph": "pydantic-ai-slim",
}
"""Packages that are imported only together with one that is declared, which needs them, by their modules."""


def links(text: str) -> list[str]:
    """Return where the links and images of a Markdown page lead to, without those in code."""
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def in_repository(address: str) -> str:
    """Return the path that an address names in the repository; empty if it leads elsewhere."""
    found = IN_THE_REPOSITORY.match(address)
    return found[1] if found else ""


def test_each_link_of_the_readme_is_absolute_since_a_package_index_shows_it_too() -> None:
    relative = [link for link in links((ROOT / "README.md").read_text()) if not link.startswith("https://")]

    assert relative == []


def test_each_link_of_the_readme_to_the_repository_names_a_file_that_is_tracked() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    named = [*filter(None, map(in_repository, links((ROOT / "README.md").read_text())))]

    assert len(named) > 15
    assert [path for path in named if not (ROOT / path).is_file()] == []
    assert not tracked or [path for path in named if path not in tracked] == []


def test_the_project_says_where_its_home_documentation_source_issues_and_changes_are() -> None:
    urls = PROJECT["project"]["urls"]

    assert set(urls) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert [urls[name] for name in urls if not urls[name].startswith(SOURCE)] == []
    assert in_repository(urls["Documentation"]) == "docs/index.md"
    assert in_repository(urls["Changelog"]) == "CHANGELOG.md"


def test_each_sample_file_that_readme_and_docs_name_is_one_that_the_package_brings() -> None:
    packaged = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    named = {
        name.rstrip("/.,:") for page in PAGES for name in re.findall(rf"{SAMPLES}/[\w./-]+", page.read_text())
    }

    assert packaged == {SAMPLES: "stenolog/examples"}
    assert len(named) > 4
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_each_package_that_is_imported_is_declared_or_comes_with_one_that_is() -> None:
    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    project, installed = PROJECT["project"], packages_distributions()
    groups = (project["dependencies"], *project["optional-dependencies"].values())
    declared = {plain(re.split(r"[^\w.-]", each)[0]) for group in groups for each in group}
    sources = [path.read_text("utf-8") for path in (ROOT / "stenolog").rglob("*.py")]
    imports = re.compile(
        r"^ *(?:import|from) ([a-z_]\w*)[\w.]*(?: import| as|$)", re.MULTILINE | re.IGNORECASE
    )
    named = {name for source in sources for name in imports.findall(source) if name in installed} - {
        "stenolog",
        "certifi",
    }  # certifi: used if it is there
    missing = {name for name in named if not declared & {plain(each) for each in installed[name]}}

    assert missing == COMPANIONS.keys()
    assert set(COMPANIONS.values()) <= declared


def test_what_needs_a_checkout_says_so_on_its_page() -> None:
    """`pip install` brings the package and its sample files, but no examples, benchmarks or tests."""
    run = re.compile(r"^(?!<!--).*python -m (?:examples|benchmarks|tests)\b", re.MULTILINE)
    naming = [page for page in PAGES if run.search(page.read_text())]

    assert len(naming) > 8
    assert [page.name for page in naming if "checkout" not in page.read_text()] == []


def test_a_program_of_the_repository_is_a_link_to_it() -> None:
    named = re.compile(r"`examples/[\w/.]+`")

    assert [(page.name, found) for page in PAGES for found in named.findall(page.read_text())] == []


def test_each_link_of_the_docs_to_the_repository_names_what_is_there() -> None:
    named = {path for page in PAGES for path in map(in_repository, links(page.read_text())) if path}

    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_the_source_distribution_has_all_that_its_pages_run_and_its_tests_import() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]

    assert {"/benchmarks", "/docs", "/examples", "/stenolog", "/tests"} <= set(included)


@pytest.mark.slow
def test_a_wheel_has_every_sample_file_and_every_module_and_nothing_of_the_tests(tmp_path: Path) -> None:
    """Build one, which fetches the build backend."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
    )
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    samples = {f"stenolog/{name}" for name in _files(ROOT / SAMPLES, ROOT / "docs")}
    assert names == samples | _files(ROOT / "stenolog", ROOT)


def _files(folder: Path, base: Path) -> set[str]:
    """Return the paths of a folder's files; other tests may have left compiled modules beside them."""
    return {
        str(path.relative_to(base))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_one_marker_is_left_out_unless_it_is_asked_for_and_ci_and_contributors_know_it() -> None:
    options = PROJECT["tool"]["pytest"]["ini_options"]
    markers = [marker.partition(":")[0] for marker in options["markers"]]

    # What is nightly is slow, too; the last one says which tests keep their logs in files.
    assert markers == ["slow", "nightly", "about_file(reason)"]
    assert options["addopts"][-2:] == ["-m", "not slow"]
    assert "-m 'slow and not nightly'" in (ROOT / ".ci" / "run").read_text()
    assert "-m nightly" in (ROOT / ".ci" / "nightly").read_text()
    assert "One marker, `slow`," in (ROOT / "CONTRIBUTING.md").read_text()


def test_a_run_begins_with_how_long_it_takes(request: pytest.FixtureRequest) -> None:
    hook = request.config.hook.pytest_report_header
    told = " ".join(map(str, hook(config=request.config, start_path=ROOT)))

    assert re.search(r"about \d+ minutes on two idle cores", told)
    assert "slow" in told
