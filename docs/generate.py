"""Write the pages that are drawn from the code: `python docs/generate.py`. A test says when one is stale."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from stenolog.adapters.plugins import load_plugins
from stenolog.apps.cli.app import EXITS, SECTIONS, app
from stenolog.domain import errors

load_plugins()  # their names stand among the choices of the commands
HERE = Path(__file__).parent
MADE = "<!-- Made by `python docs/generate.py`; change the code, not this page. -->"
PREFACE = """\
Answers go to stdout, progress to stderr; [Errors](errors.md) lists the exit codes.

| option, of every command | |
|---|---|
| `--json` | prints one envelope, `{"version": 1, "status": "ok" \\| "failed" \\| "error", "data": …, "diagnostics": […]}`; its schema is `stenolog db schema envelope` |
| `--color auto\\|always\\|never` | `auto` colours at a terminal unless `NO_COLOR` is set |
| `--local` | times in this machine's zone, not in UTC; JSON stays in UTC |
| `--no-pager` | does not page what is taller than the terminal |
| `--plugin MODULE` | loads a module, `module:function` or `FILE.py`; repeatable |
| `--traceback` | shows the traceback of an error |

| you write | as |
|---|---|
| an entry | its number; `@` (the last); `@{error}` (the last error; also `user`, `assistant`, `tool`, `mode`); `@call:ID`; each with `~3` for the third entry before it; or an ISO time, for the last entry up to then |
| a policy | `full`, `delta`, `delta:20`, `last:50`, `summary:20`, `memory:20`, and budgets `tokens:16k`, `messages:80`, `characters:120k`, `bytes:1m`, joined by `+`; or the JSON of a card |
| a conversation | a beginning that only one has; without it the newest, which stderr names |
| a time (`--since`, `--until`) | a day or an ISO time (in UTC without a zone), `45m`, `2h`, `3d` or `1w` ago, `today`, `yesterday` |
| a database | `--db FILE`, else `STENOLOG_DB`, else `$XDG_DATA_HOME/stenolog/talks.db` (`~/.local/share/…`), as `stenolog.open()` |

The fields of `data` in each command's envelope: [data.toml](data.toml).
"""


def cli() -> str:
    """Return the command line, as its own --help says it."""
    return "\n".join(_cli())


def _cli() -> Iterator[str]:
    wide = {"terminal_width": 100, "max_content_width": 100}
    ctx = click.Context(app, info_name="stenolog", **wide, **app.context_settings)
    yield f"# The command line\n\n{MADE}\n\n{PREFACE}"
    for title, section in SECTIONS.items():
        yield f"## {title}\n"
        for name in section:
            yield from _helps(name, ctx, "stenolog")


def _helps(name: str, ctx: click.Context, before: str) -> Iterator[str]:
    """Yield the help of a command, and of those in it."""
    command = ctx.command.get_command(ctx, name)  # type: ignore[attr-defined]
    inner = click.Context(command, info_name=name, parent=ctx, terminal_width=100, max_content_width=100)
    usage, _, rest = command.get_help(inner).partition("\n\n")
    words = " ".join(usage.removeprefix("Usage: ").replace("[OPTIONS]", "").split())
    shown = rest.replace("\n\nOptions:\n", "\n\n")
    head = "" if words == f"{before} {name}" else f"{words}\n\n"
    yield f"### {before} {name}\n\n```text\n{head}{shown}\n```\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(inner):
            yield from _helps(each, inner, f"{before} {name}")


def error_page() -> str:
    """Return the exit codes, and the tree of errors with the code of each."""
    rows = "\n".join(f"| {exit.code} | {exit.meaning} |" for exit in EXITS)
    head = f"# Errors and exit codes\n\n{MADE}\n\nSorted by whose fault it is; the number is the exit code.\n"
    tree = "\n".join(_tree(errors.StenologError, ""))
    return f"{head}\n| code | meaning |\n|---|---|\n{rows}\n\n{tree}\n"


def _tree(cls: type[BaseException], indent: str) -> Iterator[str]:
    """Yield an error and those below it; without a code of its own it has that of the nearest above."""
    codes = [exit.code for exit in EXITS if cls in exit.errors]
    number = f" ({codes[0]})" if codes else ""
    yield f"{indent}- `{cls.__name__}`{number}: {' '.join((cls.__doc__ or '').split())}"
    for below in vars(errors).values():
        if isinstance(below, type) and below.__bases__[0] is cls:
            yield from _tree(below, indent + "    ")


PAGES: dict[str, Callable[[], str]] = {
    **runpy.run_path(str(HERE / "generate_domain.py"))["PAGES"],
    **runpy.run_path(str(HERE / "generate_requests.py"))["PAGES"],
    **runpy.run_path(str(HERE / "generate_programs.py"))["PAGES"],
    **runpy.run_path(str(HERE / "generate_site.py"))["PAGES"],
    **runpy.run_path(str(HERE / "generate_costs.py"))["PAGES"],
    "images/request.svg": runpy.run_path(str(HERE / "draw_request.py"))["request_picture"],
    "images/lifecycle.svg": runpy.run_path(str(HERE / "draw_lifecycle.py"))["lifecycle_picture"],
    "reference/cli.md": cli,
    "reference/errors.md": error_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
        print(f"docs/{name}")
