"""The client in TypeScript: real node processes, with real services behind them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import stenolog
from clients.typescript import generate

from .typescript import COMMAND, README, built, environment, forked, program, served

Run = Callable[[str], list[Any]]


@pytest.fixture(params=["stdio", "http"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    """Run a program, and return the values that it printed."""
    db = tmp_path / "talks.db"
    with ExitStack() as stack:
        url = stack.enter_context(served(db))[1] if request.param == "http" else ""

        def run(text: str) -> list[Any]:
            command = program(tmp_path, text)
            env = environment(db, url, forked())
            done = subprocess.run(command, env=env, capture_output=True, timeout=60)
            assert done.returncode == 0, done.stderr.decode()
            return [json.loads(line) for line in done.stdout.split(b"\n") if line]

        yield run


def test_the_types_and_methods_are_those_of_the_services_schemas() -> None:
    for path, text in generate.files().items():
        assert path.read_text("utf-8") == text, f"{path.name} is stale: python clients/typescript/generate.py"


TYPED = """
import { Client, type Entry, type NewEvent } from "stenolog";
export const right: NewEvent = { kind: "user_message", event: { text: "hi", to: ["coder"] } };
export const result: NewEvent = { kind: "tool_result", event: { call_id: "c1", text: "seen" } };
// @ts-expect-error: another kind's field
export const mixed: NewEvent = { kind: "user_message", event: { call_id: "c1" } };
// @ts-expect-error: a slip
export const slip: NewEvent = { kind: "user_message", event: { txt: "hi" } };
// @ts-expect-error: no kind
export const kind: NewEvent = { kind: "note", event: {} };
export const category = (entry: Entry) => (entry.kind === "llm_error" ? entry.event.category : undefined);
// @ts-expect-error: not of every kind
export const unasked = (entry: Entry) => entry.event.category;
export const at = async (log: Client) => (await log.state({ conversation: "demo" })).position.toFixed();
// @ts-expect-error: a conversation is needed
export const nowhere = (log: Client) => log.state({});
export async function parts(log: Client): Promise<string[]> {
  const texts = [];
  for await (const entry of log.tail("demo")) {
    if (entry.kind !== "user_message") continue;
    for (const part of entry.event.parts ?? []) if (part.type === "text") texts.push(part.text);
  }
  return texts;
}
"""


def test_the_readme_and_strict_types_compile_and_the_readmes_code_does_what_it_says(tmp_path: Path) -> None:
    [code] = re.findall(r"^```ts\n(.+?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    made = built(("examples/readme.ts", code), ("examples/typed.ts", TYPED))
    stenolog_command = tmp_path / "stenolog"
    stenolog_command.write_text(f'#!/bin/sh\nexec {COMMAND} "$@"\n')
    stenolog_command.chmod(0o755)
    done = subprocess.run(
        ["node", str(made / "dist" / "examples" / "readme.js")],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        timeout=60,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "3 [ { type: 'text', text: 'Hello' } ]\nVersionConflictError 1 3\n"


def test_the_package_has_the_client_and_its_types_and_nothing_else() -> None:
    listed = subprocess.run(
        ["npm", "pack", "--dry-run", "--json", "--ignore-scripts"],
        cwd=built(),
        capture_output=True,
        check=True,
    )
    found = json.loads(listed.stdout)
    [packed] = found if isinstance(found, list) else found.values()  # a list before npm 11
    files = {each["path"] for each in packed["files"]}
    assert {"dist/src/index.js", "dist/src/index.d.ts", "src/types.ts", "README.md"} <= files
    assert not {each for each in files if "example" in each or "node_modules" in each}


def test_calls_side_by_side_are_each_answered(run: Run, tmp_path: Path) -> None:
    [ids] = run("""
      const write = (n) => log.append({ conversation, events: [said(`${n}`, `m${n}`)] });
      const sent = Array.from({ length: 80 }, (_, n) => write(n));
      print((await Promise.all(sent)).map((written) => written.entries[0].id));
    """)
    assert ids == [f"m{number}" for number in range(80)]
    with stenolog.open(tmp_path / "talks.db") as log:
        assert {entry.id for entry in log["demo"]} >= set(ids)


def test_text_of_any_alphabet_comes_back_as_it_was(run: Run) -> None:
    text = 'Größe: 5 → 6 🐈 继续\u2028\u2029\r\n\0 "\\ud800" \\\ufeff'
    [read] = run(f"""
      await log.append({{ conversation, events: [said({json.dumps(text)}, "m1")] }});
      print((await log.entries({{ conversation, after: 1 }})).entries[0].event.parts[0].text);
    """)
    assert read == text


@pytest.mark.parametrize(
    "lone", ["said('a\\ud800b')", "{ ...said('x'), event: { text: 'x', meta: { '\\udc00': 1 } } }"]
)
def test_half_of_a_surrogate_pair_is_a_typed_error_and_no_crash(run: Run, lone: str) -> None:
    [error, about] = run(f"""
      await log.append({{ conversation, events: [{lone}] }})
        .catch((error) => print([error instanceof StenologError, error.type, error.message]));
      print((await log.about()).protocol);
    """)
    assert error[:2] == [True, "InvalidParamsError"]
    assert "found a lone surrogate in" in error[2]
    assert about == 1


def test_errors_have_their_type_and_a_conflict_both_positions(run: Run) -> None:
    conflict, unknown, missing, invalid = run("""
      const tell = (error) => {
        print([error instanceof StenologError, error.type, error.expected, error.found]);
      };
      await log.append({ conversation, events: [said("one")] });
      await log.append({ conversation, events: [said("two")], expected: 1 }).catch(tell);
      await log.call("apend", {}).catch(tell);
      await log.state({ conversation, at: 9 }).catch(tell);
      await log.append({ conversation, events: [{ kind: "user_message", event: { txt: "x" } }] }).catch(tell);
    """)
    assert conflict == [True, "VersionConflictError", 1, 2]
    assert unknown == [True, "MethodNotFoundError", None, None]
    assert missing == [True, "PositionNotFoundError", None, None]
    assert invalid == [True, "InvalidEventError", None, None]


def test_a_tools_output_of_five_megabytes_goes_in_and_is_read_in_parts(run: Run) -> None:
    [effect, request, read] = run("""
      await log.join({ conversation, agent: "coder", model: "gpt-5.2" });
      const call = { type: "tool_call", id: "c1", name: "look", arguments: "{}" };
      const events = [said("look"), { kind: "assistant_message", event: { agent: "coder", parts: [call] } }];
      await log.append({ conversation, events });
      for await (const job of log.work({ conversation })) {
        if (job.claimed.call) {
          print(job.claimed.effect);
          await job.settle({ output: { text: "ä".repeat(2_500_000), duration_ms: 7 } });
        } else {
          print(job.claimed.request.body.messages.length);
          const alias = /@state\\/[\\w./-]*\\w/.exec(JSON.stringify(job.claimed.request.body))[0];
          const { text, total, next } = await log.output({ conversation, alias, offset: 2_499_990 });
          print([text, total, next]);
          await job.settle({ failure: { status: 401, message: "no key" } });
        }
      }
    """)
    assert (effect, request) == ("tool 3/0", 3)
    assert read == ["ä" * 10, 2_500_000, None]


def test_a_wrong_token_is_a_typed_error(tmp_path: Path) -> None:
    command = program(tmp_path, "await log.about().catch((error) => print(error.type));")
    with served(tmp_path / "talks.db") as (_, url):
        env = environment(tmp_path / "talks.db", url, forked()) | {"STENOLOG_TOKEN": "wrong"}
        assert subprocess.run(command, env=env, capture_output=True).stdout == b'"UnauthorizedError"\n'


@pytest.mark.slow
def test_nobody_at_the_address_is_a_typed_error_after_five_attempts(tmp_path: Path) -> None:
    command = program(tmp_path, "await log.about().catch((error) => print([error.type, error.message]));")
    with socket.create_server(("127.0.0.1", 0)) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    done = subprocess.run(command, env=environment(tmp_path / "talks.db", url, forked()), capture_output=True)
    assert json.loads(done.stdout) == ["ConnectionError", f"about: no answer of {url}"]


def test_a_signal_ends_a_tail_and_a_work_that_wait(run: Run) -> None:
    [seconds] = run("""
      const begun = Date.now();
      const signal = AbortSignal.timeout(300);
      for await (const _ of log.tail(conversation, 0, signal));
      await log.join({ conversation, agent: "coder", model: "gpt-5.2" });
      for await (const _ of log.work({ conversation, wait: 0.2 }, signal));
      print((Date.now() - begun) / 1000);
    """)
    assert 0.2 < seconds < 10
