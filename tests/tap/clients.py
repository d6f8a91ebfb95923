"""Real programs through a tap: Claude Code, Codex, Gemini CLI and opencode from npm, before a local provider.

`python -m tests.tap.clients` runs all of them and prints what the log has of their requests, once by the ids
that they send and once without them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import stenolog
from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.apps.tap.recording.transcriber import Transcriber
from tests import npm
from tests.tap import reading
from tests.tap.corpus import Verdict, judged, recorded
from tests.tap.raw_client import Label, Sent
from tests.tap.running_tap import ROOT, environment, provider_process

HERE = Path(__file__).parent / "npm"
LINKS = (
    "node node_modules/@anthropic-ai/claude-code/install.cjs",
    "cd node_modules/opencode-ai",
    "node postinstall.mjs",
)
LINK = ("sh", "-c", " && ".join(LINKS))
"""What npm would run after the install: it puts two of the programs in their places."""
SECONDS = 180.0
WEBSOCKET = 101
WORK = "RUN «echo one» RUN «ls» RUN «printf '<a & b> ünï'»"
SPAWN = "SPAWN «Helper of {0}: RUN [echo sub-one] RUN [echo sub-two]»"
AGENTS = (
    f"Work on {{0}}. {SPAWN} RUN «echo after»",
    f"TOGETHER {SPAWN} SPAWN «Another helper of {{0}}: RUN [echo other]» RUN «echo both»",
)
IDS = frozenset(
    {
        "x-claude-code-session-id", "x-claude-code-agent-id", "x-codex-turn-metadata", "x-codex-window-id",
        "session-id", "session_id", "thread-id", "thread_id", "x-client-request-id", "x-session-id",
        "x-session-affinity", "x-parent-session-id", "conversation_id",
    }
)  # fmt: skip
"""Headers that name a session, an agent or a turn."""
ID_FIELDS = ("prompt_cache_key", "client_metadata", "metadata", "safety_identifier")


@dataclass(frozen=True)
class Program:
    """A program: its words before a prompt, and those before a prompt that goes on."""

    name: str
    first: Sequence[str]
    more: Sequence[str]


OPENCODE = ("opencode", "run", "-m")
CODEX = ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
CLAUDE = ("claude", "-p", "--dangerously-skip-permissions")
GEMINI = ("gemini", "--yolo", "--skip-trust", "-m", "gemini-2.5-pro")
MODELS = ("anthropic/claude-sonnet-4-5", "openai/gpt-5", "google/gemini-2.5-pro")
PROGRAMS = (
    Program("claude", CLAUDE, (*CLAUDE, "--continue")),
    Program("codex", CODEX, (*CODEX, "resume", "--last")),
    Program("codex-old", (*CODEX, "-m", "gpt-5-codex"), (*CODEX, "-m", "gpt-5-codex", "resume", "--last")),
    Program("gemini", (*GEMINI, "-p"), (*GEMINI, "--resume", "latest", "-p")),
    *(
        Program(f"opencode-{model.partition('/')[0]}", (*OPENCODE, model), (*OPENCODE, model, "--continue"))
        for model in MODELS
    ),
)


def home_of(home: Path) -> dict[str, str]:
    """Make a home for programs, and return their environment."""
    for folder in (".codex", ".gemini", "work"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "telemetry": {"enabled": False}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    (home / ".claude.json").write_text('{"hasCompletedOnboarding": true}')
    (home / "work" / "CLAUDE.md").write_text("Use plain words.\n")
    programs = npm.installed(HERE, "real programs", then=LINK) / "node_modules" / ".bin"
    config = {"autoupdate": False, "share": "disabled", "permission": {"bash": "allow", "edit": "allow"}}
    return {
        **environment(),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(home),
        "CODEX_HOME": str(home / ".codex"),
        "ANTHROPIC_API_KEY": "sk-ant-none-0123456789",
        "OPENAI_API_KEY": "sk-none-0123456789",
        "CODEX_API_KEY": "sk-none-0123456789",
        "GEMINI_API_KEY": "none-0123456789",
        "GOOGLE_GENERATIVE_AI_API_KEY": "none-0123456789",
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


class Runs:
    """Programs that run behind taps of one database, each in a home of its own."""

    def __init__(self, folder: Path, provider: str) -> None:
        self.folder, self.database = folder, folder / "log.db"
        self._upstreams = {"anthropic": provider, "openai": f"{provider}/v1", "gemini": provider}

    def run(self, program: Program, arguments: Sequence[str], prompt: str, work: Path) -> None:
        """Run a program once behind a tap of its own. Raises for one that fails."""
        tap = [sys.executable, "-m", "stenolog", "tap", "--db", str(self.database)]
        tap += [word for name, url in self._upstreams.items() for word in ("--upstream", f"{name}={url}")]
        work.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [*tap, "--", *arguments, prompt],
            cwd=work,
            env=home_of(work.parent),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"{program.name} ended with {done.returncode}: {done.stderr[-2000:]}")

    def sessions(self, program: Program) -> None:
        """Run what a person does with a program: turns, going on, sub-agents, and two sessions at once."""
        home = self.folder / program.name
        work = home / "work"
        self.run(program, program.first, f"Please do: {WORK}", work)
        self.run(program, program.more, "And now RUN «echo two» THINK «what is next»", work)
        self.run(program, program.more, "After a failure: ERROR 529 RUN «echo three»", work)
        for nth, prompt in enumerate(AGENTS):
            self.run(program, program.first, prompt.format(f"{program.name} {nth}"), work)
        if program.name == "claude":
            self.run(program, program.more, "/compact", work)
            self.run(program, program.more, "After it: RUN «echo after-compaction»", work)
        others = [self.folder / f"{program.name}-{one}" / "work" for one in "ab"]
        with ThreadPoolExecutor(2) as pool:
            for other in others:
                pool.submit(self.run, program, program.first, "Hi. RUN «echo p1» RUN «echo p2»", other)


def label_of(exchange: Mapping[str, Any], body: Mapping[str, Any]) -> Label:
    """Return the session and agent that a program names, or else those that the words of the script tell."""
    headers = {name.lower(): value for name, value in exchange["headers"]}
    turn = headers.get("x-codex-turn-metadata", "")
    turn = (body.get("client_metadata") or {}).get("x-codex-turn-metadata", turn)
    kind = kind_of(body)
    if session := headers.get("x-claude-code-session-id"):
        return Label(session, headers.get("x-claude-code-agent-id", "main"), kind)
    if turn:
        turn_ids = json.loads(turn)
        thread = turn_ids["thread_id"]
        return Label(turn_ids["session_id"], "main" if thread == turn_ids["session_id"] else thread, kind)
    if inner := headers.get("x-session-id") or headers.get("x-session-affinity"):
        parent = headers.get("x-parent-session-id")
        return Label(parent or inner, inner if parent else "main", kind)
    return label_by_words(json.dumps(body, ensure_ascii=False), kind)


def label_by_words(arguments: str, kind: str) -> Label:
    """Return the label of a request of a program that names nothing, by the names in the script."""
    if found := re.search(r"elper of ([\w-]+ \d)", arguments):
        helper = re.search(r"\w+ helper of|Helper of", arguments)
        return Label(found[1], "main" if "SPAWN «" in arguments or helper is None else helper[0], kind)
    folder = re.search(r"/[\w-]+-[ab]/work", arguments)
    return Label(folder[0] if folder else "turns", "main", kind)


def kind_of(body: Mapping[str, Any]) -> str:
    """Return the kind of a request, as the script and the API tell it."""
    if body.get("generate") is False:
        return "warm-up"
    conversed = reading.read(dict(body))
    newest = "\n".join(conversed.newest)
    if not conversed.tools and "title" in (conversed.system + newest).lower():
        return "title"
    return "compaction" if any(arguments in newest for arguments in reading.SUMMARIES) else ""


PREFIXES = {
    "/messages": "msg_",
    "/responses": "resp_",
    "/completions": "chatcmpl-",
    "enerateContent": "gem_",
}
"""What the provider puts before its number in the id of an answer, by the address."""


def labelled(exchanges: Iterable[Mapping[str, Any]]) -> Iterator[Sent]:
    """Yield requests of models with the labels of their programs."""
    for exchange in exchanges:
        if not exchange["plain_sha256"]:
            continue
        body = json.loads(b64decode(exchange["content"])) if exchange["content"] else {}
        path = exchange["path"].partition("?")[0]
        prefix = next((prefix for ending, prefix in PREFIXES.items() if ending in path), "")
        client = next((value for name, value in exchange["headers"] if name.lower() == "user-agent"), "")
        label = label_of(exchange, body)
        digest = exchange["plain_sha256"]
        sent = Sent(label, client[:16], "POST", path, [], digest, digest, exchange["body_bytes"])
        sent.status, sent.answer_id = exchange["status"], prefix + exchange["response"]
        yield sent


def replayed(exchanges: Sequence[Mapping[str, Any]], database: Path) -> tuple[list[Sent], Verdict]:
    """Record exchanges again in the order in which they came, without ids, and judge the log."""
    moments = [(one[name], name == "ended", one) for one in exchanges for name in ("begun", "ended")]
    start, built, sent = datetime.now(UTC), dict[int, RecordedExchange](), []
    with stenolog.open(database) as log:
        recording = Transcriber(log)
        for at, has_ended, one in sorted(moments, key=lambda moment: moment[0]):
            if not one["plain_sha256"]:
                continue
            if has_ended:
                recording.answer(ended(built[one["begun"]], one))
                continue
            built[at] = without_ids(one, start + timedelta(seconds=at))
            (found,) = labelled([one])
            found.body_sha256 = built[at].sha256
            sent.append(found)
            recording.request(built[at])
        return sent, judged(sent, recorded(log))


def without_ids(one: Mapping[str, Any], time: datetime) -> RecordedExchange:
    """Return a request without the ids of its program."""
    body = json.loads(b64decode(one["content"]))
    for name in ID_FIELDS:
        body.pop(name, None)
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {name.lower(): value for name, value in one["headers"] if name.lower() not in IDS}
    headers.pop("content-encoding", None)
    digest = sha256(content).hexdigest()
    id = f"replay-{one['number']}"
    exchange = RecordedExchange(
        id, time, "POST", one["path"], "", headers=headers, content=content, sha256=digest
    )
    exchange.begun_ns = int(time.timestamp() * 1e9)
    return exchange


def ended(exchange: RecordedExchange, one: Mapping[str, Any]) -> RecordedExchange:
    """Return an exchange with its answer; that on a websocket as a stream of events."""
    answer = b64decode(one["answer"])
    exchange.status, exchange.answer = one["status"], bytearray(answer)
    exchange.answer_headers = {name.lower(): value for name, value in one["answer_headers"]}
    if one["status"] == WEBSOCKET:
        exchange.status, exchange.answer_headers = 200, {"content-type": "text/event-stream"}
        events = (b"data: %s\n\n" % line for line in answer.splitlines())
        exchange.answer = bytearray(b"".join(events))
    exchange.ended_ns = exchange.begun_ns + 10**9
    return exchange


def run_all(folder: Path, programs: Sequence[Program] = PROGRAMS) -> list[dict[str, Any]]:
    """Run programs behind taps; return what their provider met."""
    record = folder / "provider.jsonl"
    with provider_process(record, keeps=True) as provider:
        runs = Runs(folder, provider)
        for program in programs:
            runs.sessions(program)
    return [json.loads(line) for line in record.read_text().splitlines()]


def main(folder: Path, names: Sequence[str]) -> None:
    """Run programs, and print what the log has of them."""
    folder.mkdir(parents=True, exist_ok=True)
    exchanges = run_all(folder, [one for one in PROGRAMS if not names or one.name in names])
    with stenolog.open(folder / "log.db") as log:
        verdict = judged([*labelled(exchanges)], recorded(log))
    print("by ids", verdict)
    print("without ids", replayed(exchanges, folder / "replayed.db")[1], f"from {ROOT.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
