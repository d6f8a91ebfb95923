"""Every screen of the inspector, and how a person gets there. A new screen is a new row."""

from __future__ import annotations

from typing import NamedTuple

DEMO = "demo"
AT = 9
"""A position of the example conversation at which both agents have spoken."""


class Screen(NamedTuple):
    """A screen: its address, words that stand on it, and the link by which it is reached.

    `start` is the address of the screen with the link, `link` the link's accessible name. `is_folded`: it is
    seen when "More" is opened.
    """

    path: str
    shows: str
    start: str = ""
    link: str = ""
    is_folded: bool = False


HERE = f"/c/{DEMO}?at={AT}&agent=reviewer"
AT_SUMMARY = f"/c/{DEMO}?at=21&agent=coder"

SCREENS = {
    "conversations": Screen("/", "A failing test", HERE, "Conversations"),
    "search": Screen("/?q=parser", "The parser reads local time."),
    "a search without hits": Screen("/?q=nosuchword", "0 entries"),
    "read": Screen(f"/read/{DEMO}", "Where from?", "/", "A failing test"),
    "read, words": Screen(f"/read/{DEMO}?at=9&agent=coder&words=parser+local+time", "was in entry"),
    "conversation": Screen(f"/c/{DEMO}", "What coder is sent at", f"/read/{DEMO}", "Entries"),
    "another agent": Screen(HERE, "What reviewer is sent at entry 9", f"/c/{DEMO}?at={AT}", "reviewer"),
    "request": Screen(f"/request/{DEMO}?at={AT}&agent=reviewer", "What reviewer is sent", HERE, "Request"),
    "cost": Screen(f"/cost/{DEMO}", "The dearest requests", HERE, "Cost"),
    "advice": Screen(
        f"/advise/{DEMO}", "What would have been cheaper", f"/cost/{DEMO}", "What would have been cheaper"
    ),
    "costs": Screen("/costs", "Cost of all conversations", "/", "Cost of all"),
    "sorted list": Screen("/?sort=-usd", "All 3 conversations", "/", "USD"),
    "grouped list": Screen("/?group=project", "No project", "/", "Group by project"),
    "context": Screen(f"/context/{DEMO}?agent=reviewer", "Context of reviewer over time", HERE, "Context"),
    "machine": Screen(
        f"/machine/{DEMO}?at={AT}&agent=reviewer", "Machine of reviewer", HERE, "Machine", True
    ),
    "difference": Screen(f"/diff/{DEMO}?at={AT}&agent=reviewer", "with entry", HERE, "Diff"),
    "compaction": Screen(f"/compaction/{DEMO}?at=21&agent=coder", "summary", AT_SUMMARY, "Compaction"),
    "what if": Screen(
        f"/whatif/{DEMO}?at={AT}&agent=reviewer", "What if reviewer at entry 9", HERE, "What if", True
    ),
    "what if, answered": Screen(f"/whatif/{DEMO}?at=21&agent=coder&budget=120&mode=run", "over-budget"),
    "compaction, one put back": Screen(f"/compaction/{DEMO}?at=21&agent=coder&with=3", "put back"),
    "difference of conditions": Screen(f"/diff/{DEMO}?at=21&agent=coder&budget=120", "over-budget"),
    "proof": Screen(
        f"/proof/{DEMO}?at={AT}&agent=reviewer", "Computed now, from the file", HERE, "Proof", True
    ),
    "certificate": Screen(
        f"/certify/{DEMO}?at={AT}&agent=reviewer", "Was reviewer ever sent it?", HERE, "Never sent", True
    ),
    "certificate, refused": Screen(f"/certify/{DEMO}?agent=reviewer&never=2", "it has the entry: 2"),
    "change": Screen(
        f"/retry/{DEMO}?at={AT}&agent=reviewer",
        "Try a change on every recorded call",
        HERE,
        "Try a change",
        True,
    ),
    "change, tried": Screen(f"/retry/{DEMO}?policy=last:2", "changed"),
    "bisection": Screen(
        f"/bisect/{DEMO}?at={AT}&agent=reviewer", "Which entry turned a request?", HERE, "Find a turn", True
    ),
    "bisection, found": Screen(
        f"/bisect/{DEMO}?agent=coder&holds=parser", "as if the entries after each one"
    ),
    "answer": Screen(f"/answer/{DEMO}?at=3", "What answer 3 depends on"),
    "runs": Screen("/compare", "Choose two runs or more", "/", "Compare runs"),
    "runs, compared": Screen("/compare?run=demo&run=fork", "First difference"),
    "many runs": Screen("/compare?run=demo&run=fork&run=demo", "which most are like"),
    "entry": Screen(f"/entry/{DEMO}?at=3", "Entry 3"),
    "a wrong address": Screen("/c/dema", "did you mean 'demo'?"),
}
