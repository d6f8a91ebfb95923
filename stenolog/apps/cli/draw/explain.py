"""Output of `explain` and its commands and of the views of `request`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stenolog.apps.cli.lines import STYLES, Piece, counted, describe, line, paragraph
from stenolog.apps.views.states import in_words
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import WORDLESS
from stenolog.domain.lanes.state import runs_in_words
from stenolog.domain.lanes.step import Transition
from stenolog.projections.analysis import explain
from stenolog.projections.analysis.blame import Blame, BlameLink, Reference
from stenolog.projections.analysis.budget import BudgetRoom
from stenolog.projections.analysis.knowledge import PROOFS, Seen
from stenolog.projections.analysis.provider_bill import NO_BILL, Bill
from stenolog.projections.messages.rules import HAD, RULES
from stenolog.projections.requests import Request
from stenolog.projections.views.lines import KINDS
from stenolog.projections.views.timeline import erasures

from .entry_lines import entry_line, is_narrow, styled_kind
from .layout import Cell, heading, legend, table, wrapped
from .views import DISPOSITIONS, bill_lines, folded, head_lines, spans

FATES = {**DISPOSITIONS, "held": "green", "dropped": "red", "a setting": "dim"}
LINES_OF_TEXT = 40


def explanation_drawn(
    found: explain.Explanation, log: Sequence[Entry], asked: Blame, bill: Bill = NO_BILL
) -> Iterator[Piece]:
    """Draw an entry's place in requests and timeline; `log` ends at the position explained.

    `asked` is its chain back to a person, `bill` that of the request that the entry answers.
    """
    yield entry_line(found.entry, erased=erasures(log))
    if (gone := bill.unexplained) is not None and gone.tokens:
        yield heading("It answers")
        yield wrapped(
            f"the request at {gone.at}: billed {gone.billed:,} tokens, rebuilt {gone.rebuilt:,}; ",
            (f"not in this log: {gone.in_words}", "yellow"),
            hang=2,
        )
    yield heading("In the requests of")
    widest = 0 if is_narrow() else max((len(lane.lane) for lane in found.lanes), default=0)
    for lane in found.lanes:
        yield from _lane_lines(lane, len(log), widest)
    if moves := [step for step in found.transitions if step.lane or step.anomaly]:
        yield heading("What it set off")
        yield from map(_move_line, moves)
    yield heading("Who asked for it")
    yield from blame_drawn(asked)
    entries = {entry.position: entry for entry in log}
    for title, references, back in (
        ("It refers to", found.refers_to, True),
        ("It is referred to by", found.referred_to_by, False),
    ):
        if references:
            yield heading(title)
            yield table(
                (">ENTRY", "BY", "KIND", "~WHO", "*TEXT"),
                [_reference(*row, entries) for row in _by_place(references, back).items()],
            )


def _move_line(step: Transition) -> Piece:
    cause = ", ".join(filter(None, (step.trigger, *step.guard)))
    does = f" has to {in_words(step.decision)}" if step.lane else ""
    odd = f"  ! {step.anomaly}" if step.anomaly else ""
    return wrapped(
        (step.lane, "cyan"), does, (f"  ({cause})" if cause else "", "dim"), (odd, "yellow"), hang=2
    )


def _lane_lines(lane: explain.InLane, last: int, width: int) -> Iterator[Piece]:
    """Yield a line for each stretch. `width` is that of lanes' names; 0 puts them above."""
    if not width:
        yield line((lane.lane, "cyan"))
        lane = lane._replace(lane="")
    if not lane.stretches:
        yield line((f"{lane.lane:<{width}}", "cyan"), ("  no request yet", "dim"))
    indent, before = width + 14, 0
    for stretch in lane.stretches:
        form, name = stretch.form, "" if before else lane.lane
        if before and stretch.first > before + 1:
            gap = _from_to((before + 1, stretch.first - 1))
            yield wrapped(f"{'':<{width}}  {gap:<10}", ("  no request due", "dim"), hang=indent)
        before = stretch.last
        span = f"{stretch.first} on" if stretch.last == last else _from_to(stretch[:2])
        yield wrapped(
            (f"{name:<{width}}", "cyan"),
            f"  {span:<10}",
            (f"  {form.fate}", FATES[form.fate]),
            _placed(form),
            hang=indent,
        )
        if counts := _counts(stretch):
            yield wrapped((counts, "dim"), hang=2, indent=indent)
        for rule in form.rules:
            yield wrapped(f"{rule}: ", (RULES.get(rule, ""), "dim"), hang=2, indent=indent)
        for rule in form.without:
            words = f"left out of it by {rule}: "
            yield wrapped((words, "red"), (RULES.get(rule, ""), "dim"), hang=2, indent=indent)


def _from_to(span: tuple[int, int]) -> str:
    return runs_in_words([span])


def _placed(form: explain.Form) -> str:
    number = f"#{form.message + 1} " if form.message >= 0 else ""
    size = f", {tokens(form.tokens_in, form.tokens_out)} tokens" if form.tokens_in or form.tokens_out else ""
    return f" as {number}{form.role}{size}" if form.role else size


def _counts(stretch: explain.Stretch) -> str:
    """Say in how many requests an entry was sent, and how many can be proved."""
    if stretch.form.fate not in (*DISPOSITIONS, "held"):
        return ""
    sent, receipts, sendable = len(stretch.answered), len(stretch.sent), stretch.sendable
    if not sent:
        return f"in {counted(sendable, 'request')} that may be sent" if sendable else "in no request yet"
    of = f" of {sendable} sendable" if sendable > sent else ""
    proved = f"{'all' if receipts == sent else receipts} " if sent > 1 else ""
    proof = f", {proved}with a receipt" if receipts else ""
    return f"sent in {sent}{of} request{'' if max(sent, sendable) == 1 else 's'}{proof}"


def _by_place(references: Iterable[Reference], back: bool) -> dict[tuple[int, int], list[str]]:
    fields: dict[tuple[int, int], list[str]] = {}
    for ref in references:
        place = (ref.first, ref.last) if back else (ref.position, ref.position)
        fields.setdefault(place, []).append(ref.field.removesuffix(".view"))
    return fields


def _reference(
    place: tuple[int, int], fields: Sequence[str], entries: Mapping[int, Entry]
) -> tuple[Cell, ...]:
    entry = entries.get(place[0])
    if entry is None or place[0] != place[1]:
        return (_from_to(place), ", ".join(fields), "", "", "")
    who, what = describe(entry)
    return (
        _from_to(place),
        ", ".join(fields),
        styled_kind(entry.event),
        who,
        (what, "dim"),
    )


def blame_drawn(found: Blame) -> Iterator[Piece]:
    """Yield the chain, the newest first; possible links are separate."""
    columns = ("", ">ENTRY", "BY", "KIND", "~WHO", "*TEXT")
    if found.links[1:]:
        yield table(columns, [_link_row(link) for link in found.links])
    if found.end:
        yield wrapped((f"{found.end}.", "yellow" if found.gap else "green"))
    if found.possible:
        yield wrapped(("Possible, since it stood in view there; nothing says which, or whether:", "yellow"))
        yield table(columns, [_link_row(link, mark="?") for link in found.possible])


def _link_row(link: BlameLink, mark: str = "") -> tuple[Cell, ...]:
    person = "bold green" if link.person and not mark else "dim" if mark else ""
    arrow = mark or ("↳" if link.field == "control.call" else "←" if link.field else "")
    word = (
        next((each for each in WORDLESS if link.text.startswith(each)), link.kind)
        if link.kind == "unknown"
        else KINDS.get(link.kind, link.kind)
    )
    kind = (word, "dim" if mark else STYLES[link.kind])
    return ((arrow, "dim"), str(link.position), link.field, kind, (link.who, person), (link.text, person))


def reasons_drawn(
    request: Request, reasons: Iterable[explain.Reason], bill: Bill = NO_BILL, *, whole: bool
) -> Iterator[Piece]:
    """Yield each part with its reason on one line, and its text on the next, whole if `whole`."""
    yield from head_lines(request, bill)
    yield from bill_lines(bill)
    for reason in reasons:
        does = f": {reason.does}" if reason.does else ""
        yield wrapped(
            (f"{reason.message + 1:>4}" if reason.message >= 0 else "   ·", "bold"),
            f"  {reason.role:<9}",
            (f"  from {spans(reason.positions)}" if reason.positions else "", "dim"),
            (f"  {tokens(reason.tokens_in, reason.tokens_out)} tok", "dim"),
            (f"  {reason.disposition}", FATES[reason.disposition]),
            f" by {reason.rule}{does}",
            hang=6,
        )
        if reason.text and whole:
            yield paragraph(reason.text, indent=6, lines=LINES_OF_TEXT)
        elif reason.text:
            yield line("      ", (reason.text, "dim"))


def left_out_drawn(
    request: Request, gone: Sequence[explain.Missing], rooms: Sequence[BudgetRoom] = ()
) -> Iterator[Piece]:
    """Draw the omitted entries, run by run, and the arithmetic of the budget."""
    yield from head_lines(request)
    yield from map(_room_line, rooms)
    if not gone:
        yield line(("nothing was left out", "dim"))
        return
    yield table(
        (">ENTRIES", "RULE", ">TOKENS", "*FIRST OF THEM"),
        [
            (
                spans(range(run.first, run.last + 1)),
                (run.rule, "green" if run.rule in HAD else "red"),
                f"{run.tokens:,}",
                (run.text if times == 1 else f"{times} times, the first: {run.text}", "dim"),
            )
            for run, times in folded(gone)
        ],
    )
    yield from legend({run.rule: run.does for run in gone})


def _room_line(room: BudgetRoom) -> Piece:
    size = f"{room.measured:,} {room.unit}, measured for any API; room {room.room:,} of {room.limit:,}"
    is_cut = room.measured > room.room
    cut = f"; cut to {room.target:,} or what must stay, now {room.shown:,}" if is_cut else ""
    return wrapped(("budget  ", "dim"), size + cut)


def view_drawn(entries_seen: Sequence[Seen], agent: str, minus: str, log: Sequence[Entry]) -> Iterator[Piece]:
    """Draw the entries that one agent has seen and the other has not, with sources."""
    yield wrapped(
        (agent, "bold cyan"), f" has seen {counted(len(entries_seen), 'entry', 'entries')} that ",
        (minus, "bold cyan"), f" has not, at {log[-1].position}",
    )  # fmt: skip
    if not entries_seen:
        return
    entries = {entry.position: entry for entry in log}
    columns = (">ENTRY", "KIND", "~WHO", "KNOWN BY", ">SINCE", "KEPT BACK BY", "*TEXT")
    yield table(columns, [_seen_row(seen, entries[seen.position]) for seen in entries_seen])
    used = {seen.proof for seen in entries_seen}
    yield from legend({proof: means for proof, means in PROOFS.items() if proof in used})


def _seen_row(seen: Seen, entry: Entry) -> tuple[Cell, ...]:
    who, what = describe(entry)
    style = "yellow" if seen.proof in ("next", "rebuilt") else "green"
    return (
        str(seen.position),
        styled_kind(entry.event),
        who,
        (seen.proof, style),
        str(seen.by or ""),
        seen.unseen_by,
        (what, "dim"),
    )


def tokens(before: int, after: int) -> str:
    """Return the tokens in and out, as one number if equal."""
    return f"{after:,}" if before in (after, 0) else f"{before:,} → {after:,}"
