"""Report of a check: what was checked, and the problems found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

Code: TypeAlias = Literal[
    "file",
    "noted",
    "history",
    "unreadable",
    "gap",
    "digest",
    "erased",
    "link",
    "payload",
    "blob",
    "checkpoint",
    "head",
]


class Problem(NamedTuple):
    """A difference to what was written.

    `pointer` is a JSON pointer into the entry at `position` (`/digest`, `/event/parts/0/text`), or its
    checkpoint. A problem of the whole file has no conversation or position.
    """

    conversation: str
    position: int
    pointer: str
    code: Code
    expected: str
    found: str


class Anomaly(NamedTuple):
    """An entry out of order in an intact log."""

    conversation: str
    position: int
    lane: str
    what: str


class Checked(NamedTuple):
    """A checked conversation: its head, and the number of entries checked.

    In a whole log, inherited entries are checked once, as the parent's.
    """

    conversation: str
    position: int
    digest: str
    entries: int


class WithoutReceipt(NamedTuple):
    """An agent's answers of one day without a receipt: their requests cannot be proved.

    The first of them is at `position`. Imported answers, which never had one here, are not counted.
    """

    agent: str
    day: str
    answers: int
    conversation: str
    position: int


class Report(NamedTuple):
    """The result of `verify`.

    `notes` name what cannot be proved: unknown kinds and erased entries. `head` is the log's, if all of it
    was checked, and `ends` are stream, position and digest of each conversation, of which it is made.
    """

    conversations: tuple[Checked, ...]
    problems: tuple[Problem, ...]
    anomalies: tuple[Anomaly, ...]
    notes: tuple[str, ...]
    blobs: int
    head: str = ""
    without_receipt: tuple[WithoutReceipt, ...] = ()
    ends: tuple[tuple[int, int, str], ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


Severity: TypeAlias = Literal["none", "housekeeping", "integrity"]


def severity(report: Report, outcomes: Iterable[str] = ()) -> Severity:
    """Return the severity of a report and of rebuilt requests.

    `integrity`: the log or a request is not what it was. `housekeeping`: something cannot be proved or is out
    of order, without signs of a change.
    """
    found = {*outcomes}
    if report.problems or "differs" in found:
        return "integrity"
    unproved = report.notes or report.anomalies or report.without_receipt or "not-provable" in found
    return "housekeeping" if unproved else "none"


class Findings:
    """Collects the problems of a check that is under way."""

    def __init__(self, head: str | None, published: tuple[tuple[int, int, bytes], ...] = ()) -> None:
        self.head = head
        self.published = published
        self.ends: list[tuple[int, int, bytes]] = []
        self.head_seen = False
        self.checked: list[Checked] = []
        self.problems: list[Problem] = []
        self.anomalies: list[Anomaly] = []
        self.notes: list[str] = []
        self.erased: dict[tuple[int, int], str] = {}
        """The erased entries, by stream and position, and the hash of what is left of each."""
        self.told_erased: set[tuple[int, int]] = set()
        """Those that a later entry says were erased."""
        self.named_blobs: dict[str, tuple[str, int, str]] = {}
        self.kept_blobs: dict[str, tuple[str, int]] = {}
        """Blobs of kept files, and an entry that names each: an erasure may have removed them."""
        self.blobs = 0
        self.log_head = ""
        self.without_receipt: dict[tuple[str, str], WithoutReceipt] = {}

    def add(self, other: Findings) -> None:
        """Add the findings of further conversations."""
        self.head_seen |= other.head_seen
        self.checked += other.checked
        self.problems += other.problems
        self.anomalies += other.anomalies
        self.notes += other.notes
        self.erased |= other.erased
        self.told_erased |= other.told_erased
        for one in other.without_receipt.values():
            self.add_without_receipt(one)
        for sha, place in other.named_blobs.items():
            self.named_blobs.setdefault(sha, place)
        self.kept_blobs |= other.kept_blobs

    def add_without_receipt(self, one: WithoutReceipt) -> None:
        """Add answers to those of the same agent and day."""
        first = self.without_receipt.get(one[:2], one._replace(answers=0))
        self.without_receipt[one[:2]] = first._replace(answers=first.answers + one.answers)

    def report(self) -> Report:
        """Return the report of all that was found."""
        if self.head is not None and not self.head_seen:
            last = self.checked[-1] if len(self.checked) == 1 else Checked("", 0, "no entry with it", 0)
            self.problems.append(
                Problem(last.conversation, last.position, "/digest", "head", self.head, last.digest)
            )
        return Report(
            tuple(self.checked),
            tuple(self.problems),
            tuple(self.anomalies),
            tuple(self.notes),
            self.blobs,
            self.log_head,
            tuple(sorted(self.without_receipt.values())),
            tuple((key, position, digest.hex()) for key, position, digest in self.ends),
        )


def of_file(fault: str) -> Problem:
    """Return the problem of a file as a whole."""
    return Problem("", 0, "", "file", "a sound database", fault)
