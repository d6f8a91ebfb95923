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
| a position | a number; `@` (the last); `@{error}` (the last error; also `user`, `assistant`, `tool`, `mode`); `@call:ID`; each with `~3` for the third entry before it; or an ISO time, for the last entry up to then |
| a policy | `full`, `delta`, `delta:20`, `last:50`, `summary:20`, `memory:20`, and budgets `tokens:16k`, `messages:80`, `characters:120k`, `bytes:1m`, joined by `+`; or the JSON of a card |
| a conversation | a beginning that only one has; without it the newest, which stderr names |
| a time (`--since`, `--until`) | a day or an ISO time (in UTC without a zone), `45m`, `2h`, `3d` or `1w` ago, `today`, `yesterday` |
| a database | `--db FILE`, else `STENOLOG_DB`, else `$XDG_DATA_HOME/stenolog/talks.db` (`~/.local/share/…`), as `stenolog.open()` |

## Data of each command

| command | `data` |
|---|---|
| `demo` | `conversation`, `entries`, `timeline`, `request`, `replay` |
| `ls` | list of `name`, `short_name`, `title`, `folder`, `branch`, `models`, `position`, `digest`, `agents`, `asks_person`, `lanes`, `last_at`, `turns`, `errors`, `tokens`, `known_cost_micro_usd`, `cost_is_incomplete`, `cost_is_by_example_prices`, `fork_of` |
| `log` | `conversation`, `entries` |
| `show`, lines of `tail` | `conversation`, `position`, `id`, `time`, `digest`, `kind`, `topic`, `event` |
| `search` | `query`, `hits`, `titles` (by conversation); a hit: `conversation`, `position`, `time`, `kind`, `who`, `snippet`, `marks` (first character of each match, and the one after it) |
| `timeline` | `conversation`, `items` |
| `state` | `conversation`, `state`, `settings`, `asks_person`, `transitions` (of that entry), `legal` (next triggers) |
| `state --steps` | `conversation`, `transitions` |
| `outputs` | `conversation`, `outputs`, `directory`, `written` |
| `outputs ALIAS` | `conversation`, `alias`, `text`, `offset`, `end`, `total`, `next` |
| `request` | `agent`, `task`, `at`, `api`, `sendable`, `reason`, `sha256`, `pipeline`, `counter`, `cuts`, `policy`, `size`, `as_sent`, `parts`, `omissions`, `body`, `bill` |
| `request --why` | `agent`, `task`, `at`, `api`, `sendable`, `reason`, `sha256`, `policy`, `reasons`, `left_out`, `bill` |
| `request --dropped` | `agent`, `task`, `at`, `api`, `sendable`, `reason`, `sha256`, `policy`, `reasons`, `left_out`, `bill`, `budget` |
| `request --diff`, `request --other` | `before`, `after`, `shared`, `fresh`, `again`, `first`, `messages_before`, `messages_after`, `tokens_before`, `tokens_after`, `around`, `equal`, `changes`, `call`, `known_cost_micro_usd`, `cost_is_by_example_prices` |
| `request --without`, `request --policy`, `request --budget` | `conversation`, `agent`, `same`, `difference`, `real`, `other` |
| `explain`, `explain entry` | `conversation`, `at`, `entry`, `lanes`, `timeline`, `transitions`, `refers_to`, `referred_to_by`, `bill`; with `--bytes` `conversation`, `position`, `bytes` |
| `explain call` | `conversation`, `links`, `gap`, `possible` |
| `explain text` | `conversation`, `agent`, `text`, `verdict`, `runs`, `last`, `vanished`, `source`, `rule`, `dropped`, `note` |
| `explain agent` | `conversation`, `at`, `agent`, `minus`, `seen` |
| `explain compaction` | `conversation`, `agent`, `compactions`, `chosen` |
| `explain value` | `reached`, `agents`, `providers`; a place: `what`, `conversation`, `position`, `agent`, `provider`, `model`, `where`, `reason` |
| `chat`, `run` | lines as of `tail`; the last: `conversation`, `position`, `lanes` |
| `rerun` | `conversation`, `entries`, `requests` (that are the same), `divergence`; it: `position`, `lane`, `view`, `pointer`, `expected`, `found` |
| `submit` | `conversation`, `position`; with `--wait` `answers`: `agent`, `text` |
| `workers` | `workers`, `queues`, `held`; a worker: `team`, `version`, `current`, `host`, `pid`, `started`, `concurrency`, `doing`; a queue: `team`, `waiting`, `oldest`; a session that readers wait for: `pid`, `application`, `state`, `seconds` |
| `claims` | list of `conversation`, `lane`, `effect`, `since`, `host`, `pid`, `alive`, `owner` |
| `check`, `check all` | `log`, `requests` |
| `check log` | `conversations`, `blobs`, `head`, `anomalies`, `requests`, `without_receipt`, `severity`; with `--requests`: `same`, `grades`, `differs`, `not-provable` |
| `check requests` | `conversations`, `all_prefixes`, `requests`, `invalid`, `not_built` |
| `check file` | list of `file`, `format`, `outcome`, `entries`, `agents`, `problems`; of one file `request` |
| `check gate` | `requests`, `compared`, `changed`, `vanished`, `new`, `then`, `now`, `file`; else a line each |
| `check replay` | `conversation`, `transitions`, `state`, `digest`, `equal` |
| `cost` | `conversations`, `by`, `rows`, `total` |
| `cost --cache` | `conversations`, `calls`, `total`; a call: `conversation`, `position`, `view`, `lane`, `api`, `model`, `before`, `prompt`, `same`, `expected`, `read`, `written`, `missed`, `seconds`, `cause`, `written_hour`, `verdict`, `verdict_missed`, `is_miss`, `agreement`, `is_confirmed`, `cost_micro_usd` |
| `cost --plan` | `conversation`, `agent`, `api`, `rows` |
| `drift` | `client`, `roles`; a role: `client`, `role`, `begins`, `versions`, `changes` |
| `stats` | `conversation`, `position`, `agents`, `agent`, `api`, `largest`, `budget`, `unexplained`, `cuts`, `compactions`, `resets`, `rewinds`, `steps`, `marks`, `samples` |
| `append` | `conversation`, `appended`, `already`, `entries` |
| `import` | list of `file`, `format`, `conversations`, `skipped`, `repaired`, `incomplete`, `left_out`, `team` |
| lines of `watch` | `reports` as of `import`, `refused`: `file`, `error` |
| `export` | `conversation`, `entries`, `form`, `file` |
| `fork` | `conversation`, `fork_of`, `after`, `head` |
| `rename` | `old`, `conversation` |
| `archive` | `conversation`, `archived` |
| `delete` | `conversation`, `entries` |
| `erase` | `conversation`, `positions`, `by`, `reason`, `recorded_at`, `is_complete`, `quoted_at` |
| `db path` | `path`, `exists` |
| `db backup` | `db`, `file`, `bytes` |
| `db restore` | `path`, `conversations`, `entries`, `moved`, `file` |
| `db salvage` | `path`, `conversations`, `blobs`, `lost_blobs`, `notes`, `file`, `is_whole`; a conversation: `name`, `entries`, `position`, `same_until`, `lost`, `unproved` |
| `db gc` | `blobs`, `bytes`, `kept`, `is_complete` |
| `db schema` | the JSON Schema; or the names |
| `completion` | `shell`, `script`, `use` |
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
    yield f"### {before} {name}\n\n```text\n{command.get_help(inner)}\n```\n"
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
    "images/request.svg": runpy.run_path(str(HERE / "draw_request.py"))["request_picture"],
    "images/lifecycle.svg": runpy.run_path(str(HERE / "draw_lifecycle.py"))["lifecycle_picture"],
    "reference/cli.md": cli,
    "reference/errors.md": error_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
        print(f"docs/{name}")
