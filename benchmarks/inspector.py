"""The pages of `stenolog inspect` in Chromium, beside an empty page of the same server in the same browser.

A conversation of 5,000 entries and one of 50,000, of three agents with a budget of 8,000 tokens; a log of
10,000 conversations; and a folder of 300 sessions, the shared transcripts among them if there are any. The
server is a process of its own, as is the one that appends.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import _transcripts, many
from benchmarks._ratio import Row, accepted, compiled
from stenolog import AssistantMessage, Event, LlmError, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.adapters.conversation import log as logs
from stenolog.context import Budget
from stenolog.importers import files_in
from tests.browser.browsing import chromium, inspected

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = (5_000, 50_000)
CONVERSATIONS = 10_000
SESSIONS = 300
SHARED = Path(__file__).parents[2] / "shared" / "transcripts"
DIFFERING = 700
"""Entries whose request has some 200 kB."""
ROUNDS = 7
LOOK_MS = 4000
"""Milliseconds that a person looks at a page before the slider is moved; the server does not idle then."""
STEPS = 25
COLD = 1_000
"""Entries of a conversation of which one page is loaded, for the first time."""
PAGES = ("read", "c", "request", "context", "diff", "compaction", "whatif", "machine", "proof", "entry")
AGENTS = ("coder", "tester", "reviewer")
TEXT = "The failing test is the one that counts the rows of the ledger, and it reads the local time. "
EMPTY = "<!doctype html><title>empty</title><p>empty"
SERVER = """import sys
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route
import stenolog
from benchmarks.inspector import EMPTY
from stenolog.apps.cli.commands.see.inspect import run_server
with stenolog.open(sys.argv[1]) as log:
    routes = [Route("/empty", lambda _: HTMLResponse(EMPTY)), Mount("/", stenolog.inspector(log, token=""))]
    run_server(Starlette(routes=routes), "127.0.0.1", 0, "", opens=False)"""
# Noted in the page itself: a message from the browser to this process takes as long as some of the work.
NOTE_FIRST_ROW = """new MutationObserver((_, watching) => {
    if (!document.querySelector("main a[href*='/read/']")) return;
    watching.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.shownAt = performance.now(); }, 0));
}).observe(document, { childList: true, subtree: true });"""
FIRST_ROW = """() => new Promise(done => {
    const look = () => window.shownAt ? done(window.shownAt) : setTimeout(look, 5);
    look();
})"""
PAINTED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))"
STEP = """async (at) => {
    const slider = document.getElementById("slider"), start = performance.now();
    slider.value = at;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    const there = () => document.querySelector("#rows [aria-current]")?.dataset.position == at
        && document.querySelector("#panel h2")?.textContent.endsWith(` at ${at}`);
    while (!there()) {
        await new Promise(done => requestAnimationFrame(done));
        if (performance.now() - start > 60000) throw new Error(
            `${at}: ${document.querySelector("#rows [aria-current]")?.dataset.position} in the list, `
            + `${document.querySelector("#panel")?.textContent.slice(0, 80)} in the panel`);
    }
    return performance.now() - start;
}"""

TURN = """async (at) => {
    const { go } = await import(document.querySelector("script[src$='/read.js']").src);
    const start = performance.now();
    go(at, { isJump: true });
    while (document.querySelector("#text .item[aria-current]")?.dataset.position != at) {
        await new Promise(done => requestAnimationFrame(done));
        if (performance.now() - start > 60000) throw new Error(`${at} is not read`);
    }
    return performance.now() - start;
}"""
FRAMES = """async () => {
    const box = document.getElementById("text"), times = [];
    let last = performance.now();
    for (let frame = 0; frame < 180; frame += 1) {
        box.scrollTop += 40;
        await new Promise(done => requestAnimationFrame(done));
        times.push(performance.now() - last);
        last = performance.now();
    }
    return times;
}"""

NOTCH = """async (nth) => {
    const notch = document.querySelector("#whatif .notches"), sums = document.getElementById("whatif-sums");
    const before = sums.innerHTML, start = performance.now();
    notch.value = nth;
    notch.dispatchEvent(new Event("input", { bubbles: true }));
    while (sums.innerHTML === before) {
        await new Promise(done => requestAnimationFrame(done));
        if (performance.now() - start > 10000) throw new Error(`the bar does not show notch ${nth}`);
    }
    return performance.now() - start;
}"""


def run() -> Iterable[Row]:
    compiled()
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder, "talks.db")
        with logs.open(db, synchronous="normal") as log:
            for size in SIZES:
                write(log, f"talk of {size}", size)
            write(log, "diff", DIFFERING, tokens=200_000)
            for name in PAGES:
                write(log, f"{name} of {COLD}", COLD)
            yield one_file(log)
        with chromium() as browser:
            with served(db) as url, opened(browser) as page:
                for size in SIZES:
                    yield from conversation(page, url, size)
                    yield from reading(page, url, size)
                yield from first_loads(page, url)
                diff = beside_empty(page, url, "a diff of 200 kB", f"{url}/diff/diff?agent=coder", 100)
                yield accepted(diff, 135)
                yield notches(page, url)
                yield live(page, url, db)
            yield first_paint(browser, db)
            yield from importing(browser, Path(folder))
            full = Path(folder, "many.db")
            many.filled(full, CONVERSATIONS)
            with served(full) as url, opened(browser) as page:
                yield from first_page(page, url)
                yield from all_costs(page, url)


def write(log: logs.Log, name: str, size: int, tokens: int = 8_000) -> None:
    """Write a conversation of so many entries, under a budget."""
    talk = log[name]
    for agent in AGENTS:
        talk.join(agent, model="gpt-5.2", persona=f"You are {agent}.", policy=Budget(tokens))
    talk.extend(list(events(size - talk.position)), expected=talk.position)


def events(number: int) -> Iterator[Event]:
    """Yield questions, calls with their results, answers; and now and then an error or another mode."""
    chance = random.Random(1)
    made: list[Event] = []
    for turn in count():
        agent = AGENTS[turn // 4 % 3]
        made.append(UserMessage(f"{turn}: {TEXT * chance.randint(1, 3)}", to=[agent]))
        for nth in range(2):
            call = ToolCall(id=f"c{turn}-{nth}", name="shell", arguments=json.dumps({"cmd": "pytest -q"}))
            made.append(AssistantMessage(agent=agent, parts=[call]))
            made.append(ToolResult(call_id=call.id, name="shell", text=TEXT * chance.randint(1, 8)))
        if turn % 40 == 39:
            made.append(LlmError(agent=agent, category="timeout", message="no token for 60 s"))
        made.append(AssistantMessage(agent=agent, text=TEXT * chance.randint(1, 4)))
        if turn % 100 == 99:
            made.append(ModeSwitch(mode="agent" if turn % 200 == 99 else "chat"))
        if len(made) >= number:
            yield from made[:number]
            return


@contextmanager
def served(db: Path) -> Iterator[str]:
    """Run the pages, and an empty one, as a process; yield the beginning of their addresses."""
    command = [sys.executable, "-c", SERVER, str(db)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


@contextmanager
def opened(browser: Browser) -> Iterator[Page]:
    """Open a window, and close it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        yield context.new_page()
    finally:
        context.close()


def conversation(page: Page, url: str, size: int) -> Iterator[Row]:
    """Yield the rows of one conversation: until it can be used, its slider, its nodes."""
    address = f"{url}/c/talk%20of%20{size}"
    yield beside_empty(page, url, f"{size:,} entries, until the page can be used", address, 400)
    page.goto(f"{address}?at={size // 2}&agent=coder")
    page.evaluate(STEP, size // 2)  # the request comes by itself, after the page
    page.wait_for_timeout(LOOK_MS)
    near = [page.evaluate(STEP, size // 2 + step) for step in range(1, STEPS)]
    yield ms(f"{size:,} entries, a step of the slider", near, 50)
    chance = random.Random(2)
    far = [page.evaluate(STEP, chance.randint(size // 10, size)) for _ in range(STEPS)]
    yield accepted(ms(f"{size:,} entries, a jump of the slider", far, 50), 75)
    nodes = page.evaluate("document.getElementsByTagName('*').length")
    yield Row(f"{size:,} entries, nodes in the page", nodes, 2000, "nodes")


def reading(page: Page, url: str, size: int) -> Iterator[Row]:
    """Yield the rows of a conversation that is read: until it can be used, jumps to turns, scrolling."""
    address = f"{url}/read/talk%20of%20{size}?turn=100"
    yield beside_empty(page, url, f"{size:,} entries, until they can be read", address, 400)
    page.goto(address)
    turns = page.evaluate("+document.getElementById('read').dataset.total")
    page.wait_for_timeout(LOOK_MS)
    chance = random.Random(3)
    places = [
        page.request.get(f"{url}/read/talk%20of%20{size}?turn={turn}").text()
        for turn in (chance.randint(1, turns) for _ in range(STEPS))
    ]
    positions = [int(text.split('data-at="')[1].split('"')[0]) for text in places]
    yield ms(f"{size:,} entries, a jump to a turn", [page.evaluate(TURN, at) for at in positions], 50)
    yield ms(f"{size:,} entries, a frame while one scrolls", page.evaluate(FRAMES), 17)


def one_file(log: logs.Log) -> Row:
    """Measure the size of a conversation as one file."""
    start = time.perf_counter()
    size = len(log[f"talk of {SIZES[0]}"].export("html").encode())
    note = f"written in {time.perf_counter() - start:.1f} s"
    return Row(f"{SIZES[0]:,} entries as one HTML file", size / 1e6, 1, "MB", note)


def first_loads(page: Page, url: str) -> Iterator[Row]:
    """Yield a row for each page of a conversation that nobody has looked at yet."""
    for name in PAGES:
        page.goto("about:blank")
        address = f"{url}/{name}/{name}%20of%20{COLD}?at={COLD}&agent=coder"
        taken = timed(partial(page.goto, address))  # a page that goes on by itself is navigated at once
        yield Row(f"{COLD:,} entries, the first load of /{name}", taken * 1e3, 1000, "ms")


def beside_empty(page: Page, url: str, name: str, address: str, limit: float) -> Row:
    """Compare a page with an empty one, both loaded and painted in turns."""
    times: dict[str, list[float]] = {address: [], f"{url}/empty": []}
    for _ in range(ROUNDS + 1):
        for each, found in times.items():
            page.goto("about:blank")
            taken = timed(partial(loaded, page, each)) * 1e3
            found.append(taken)
    first = times[address][0]  # it reads the log, and fills caches
    ours, empty = (median(found[1:]) for found in times.values())
    note = f"{ours:.0f} against {empty:.0f} ms; {first:.0f} the first time"
    return Row(f"{name}, beyond an empty page", ours - empty, limit, "ms", note)


def loaded(page: Page, address: str) -> None:
    page.goto(address, wait_until="load")
    page.evaluate(PAINTED)


def ms(name: str, found: Sequence[float], limit: float) -> Row:
    """Return a row of the median of some milliseconds."""
    ranked = sorted(found)
    note = f"95 % within {ranked[int(len(ranked) * 0.95)]:.0f} ms"
    return Row(name, median(found), limit, "ms", note)


def notches(page: Page, url: str) -> Row:
    """Measure the what-if bar's slider, there and back: each notch is another budget."""
    page.goto(f"{url}/whatif/talk%20of%20{SIZES[0]}?agent=coder")
    page.wait_for_selector("#whatif .notches:not([hidden])")
    last = int(page.get_attribute("#whatif .notches", "max") or 0)
    page.evaluate(NOTCH, last - 1)
    page.wait_for_timeout(LOOK_MS)
    found = [page.evaluate(NOTCH, nth) for nth in (*range(last - 2, 0, -1), *range(2, last - 1))]
    return ms(f"{SIZES[0]:,} entries, a notch of the what-if bar", found, 100)


def live(page: Page, url: str, db: Path) -> Row:
    """Measure from an append, in this process, to the entry in the page."""
    size = SIZES[0]
    name = f"talk of {size}"
    page.goto(f"{url}/c/talk%20of%20{size}")
    found = []
    with logs.open(db) as log:
        talk = log[name]
        for _ in range(ROUNDS):
            time.sleep(0.5)
            at = talk.position + 1
            start = time.perf_counter()
            talk.append(UserMessage("And one more.", to=["coder"]))
            page.wait_for_selector(f"#rows [data-position='{at}']", state="attached")
            found.append((time.perf_counter() - start) * 1e3)
    return ms("from an append to the entry in the page", found, 250)


def first_paint(browser: Browser, db: Path) -> Row:
    """Measure from the start of the command to the first page."""
    found = []
    for _ in range(4):  # the first one reads the log, and fills caches
        with opened(browser) as page:
            start = time.perf_counter()
            with inspected(db) as url:
                page.goto(url, wait_until="commit")
                page.wait_for_selector("main a[href*='/read/']")
                page.evaluate(PAINTED)
                found.append((time.perf_counter() - start) * 1e3)
    row = ms("from `stenolog inspect` to the first page", found[1:], 1000)
    return row._replace(note=f"{row.note}; {found[0]:.0f} ms the first time")


def importing(browser: Browser, folder: Path) -> Iterator[Row]:
    """Yield the rows of a folder: until the page can be used, until all is in, a page meanwhile."""
    given = folder / "sessions"
    given.mkdir()
    if SHARED.is_dir():
        shutil.copytree(SHARED, given / "shared")
    make, there = _transcripts.Maker(7), len([*files_in(given)])
    size = sum(_transcripts.short_file(given, make, number) for number in range(SESSIONS - there))
    size += sum(file.stat().st_size for file in (given / "shared").rglob("*") if file.is_file())
    what, meanwhile = f"a folder of {SESSIONS} sessions, {size / 1e6:.0f} MB", list[float]()
    with opened(browser) as page:
        start = time.perf_counter()
        with inspected(folder / "imported.db", str(given), "--no-open") as url:
            page.goto(url, wait_until="commit")
            page.wait_for_selector("#importing .words:not(:empty)")
            page.evaluate(PAINTED)
            usable = time.perf_counter() - start
            first = page.wait_for_selector("#found a[href*='/read/']", state="attached")
            begun, link = time.perf_counter() - start, first and first.get_attribute("href")
            with opened(browser) as reader:
                reader.goto(url, wait_until="commit")
                while page.query_selector("#importing progress"):
                    meanwhile.append(timed(partial(loaded, reader, f"{url.rpartition('/?')[0]}{link}")) * 1e3)
                    time.sleep(0.2)
            yield Row(f"{what}: usable", usable, 2, "s", f"the first conversation after {begun:.1f} s")
            words = page.inner_text("#importing .words")
            yield Row(f"{what}: all", time.perf_counter() - start, 30, "s", words)
    yield ms(f"{what}: a conversation read meanwhile", meanwhile, 500)


def first_page(page: Page, url: str) -> Iterator[Row]:
    """Yield the rows of the list of conversations, each from the begin of the navigation to a painted row."""
    page.add_init_script(NOTE_FIRST_ROW)

    def rows(path: str, words: str, limit: float) -> Row:
        found = []
        for _ in range(ROUNDS + 1):
            page.goto("about:blank")
            page.goto(f"{url}{path}")
            found.append(page.evaluate(FIRST_ROW))
        return ms(f"{words}, of {CONVERSATIONS:,} conversations", found[1:], limit)

    yield rows("/", "the first row", 200)
    yield rows("/?q=ledger", "a search", 150)


def all_costs(page: Page, url: str) -> Iterator[Row]:
    """Yield the rows of what all conversations cost, after they were counted once."""
    begun = time.perf_counter()
    while 'role="status"' in page.request.get(f"{url}/costs").text():
        page.wait_for_timeout(500)
    counted = time.perf_counter() - begun
    for path, words in (("/costs", "Cost"), ("/?sort=-usd&group=project", "the list by cost and project")):
        found = [timed(partial(loaded, page, f"{url}{path}")) * 1e3 for _ in range(ROUNDS + 1)]
        row = ms(f"{words}, of {CONVERSATIONS:,} conversations", found[1:], 300)
        yield row._replace(note=f"{row.note}; counted in {counted:.0f} s the first time")


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
