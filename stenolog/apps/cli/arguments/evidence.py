"""Options of an evidence pack."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from stenolog.adapters.importers.evidence.pack import PackContents, Packed
from stenolog.adapters.importers.evidence.signing import read_signer
from stenolog.apps.cli.lines import Diagnostic
from stenolog.apps.views.positions import position_ranges
from stenolog.domain.lanes.state import runs_in_words
from stenolog.projections.evidence.requests import Wanted
from stenolog.projections.requests.pipeline.omissions import runs

from .position import resolve

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS = (
    click.option(
        "--withhold", multiple=True, metavar="ENTRIES", help="Leave only hashes of entries: 91 or 40-44,91."
    ),
    click.option("--show-guessable", is_flag=True, help="Show answers whose receipts let these be guessed."),
    click.option("--statement", metavar="TEXT", help="Your words about the pack."),
    click.option(
        "--certificate",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A certificate, as its statement; with its requests.",
    ),
    click.option(
        "--sign",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="KEYFILE",
        help="Sign with this Ed25519 private key.",
    ),
    click.option("--by", metavar="NAME", help="The name in the signature."),
    click.option(
        "--anchor",
        multiple=True,
        metavar="URL",
        help="Time stamp by a server (RFC 3161) or a command.",
    ),
    click.option("--whole-history", is_flag=True, help="Add all that proves the log's head."),
)


class PackOptions(NamedTuple):
    """The options as written."""

    withhold: tuple[str, ...]
    show_guessable: bool
    statement: str | None
    certificate: Path | None
    sign: Path | None
    by: str | None
    anchor: tuple[str, ...]
    whole_history: bool

    @property
    def first_given(self) -> str:
        """The first option that was given; "" if none."""
        names = (name for name, value in self._asdict().items() if value)
        return next((f"--{name.replace('_', '-')}" for name in names), "")

    def contents(self, conversation: Conversation, at: str | None) -> PackContents:
        """Return the contents to write. Raises as `position_ranges` and `read_signer`."""
        if self.by and self.sign is None:
            raise click.UsageError("--by is for --sign")
        if self.certificate is not None and self.statement is not None:
            raise click.UsageError("--certificate is the statement: leave out --statement")
        requests: Wanted = "newest" if self.certificate is None else "all"
        if at is not None:
            requests = "all" if at == "all" else _positions(conversation, [at])
        return PackContents(
            requests,
            _positions(conversation, self.withhold),
            self._certificate(conversation) or _text(self.statement, "--statement"),
            None if self.sign is None else read_signer(self.sign, by=_text(self.by, "--by")),
            self.anchor,
            self.whole_history,
            self.show_guessable,
        )

    def _certificate(self, conversation: Conversation) -> str:
        """Return the certificate as text. Raises `CallerError` for one that is not of this conversation."""
        if self.certificate is None:
            return ""
        from stenolog.apps.views.certificates import certificate_of

        return certificate_of(conversation, self.certificate.read_bytes(), str(self.certificate))


def takes_pack_options(function: F) -> F:
    """Add the options of an evidence pack, passed as one `PackOptions`."""

    @functools.wraps(function)
    def called(**given: Any) -> Any:
        options = PackOptions(**{name: given.pop(name) for name in PackOptions._fields})
        return function(pack=options, **given)

    decorated: Any = called
    for option in reversed(OPTIONS):
        decorated = option(decorated)
    return cast("F", decorated)


def pack_data(packed: Packed) -> dict[str, Any]:
    """Return the positions in a pack, by what was made of them."""
    left_out = [{"position": position, "reason": why} for position, why in packed.chosen.left_out]
    requests = [request.position for request in packed.chosen.requests]
    return {"withheld": [*packed.withheld], "requests": requests, "left_out": left_out}


def pack_notes(packed: Packed) -> Iterator[Diagnostic]:
    """Yield what to know of a pack before it is passed on."""
    if not packed.chosen.requests and not packed.chosen.left_out:
        yield Diagnostic("note", "no-request", "no disclosed answer has a receipt: the pack shows no request")
    for position, why in packed.chosen.left_out:
        yield Diagnostic("note", "request-left-out", f"the request of {position} is left out: {why}")
    if packed.guessable:
        where, why = runs_in_words(runs(packed.guessable)), "a short withheld text can be guessed from"
        if {*packed.guessable} <= {*packed.withheld}:
            words = f"answers are withheld too, since {why} their receipts: {where} (--show-guessable)"
            yield Diagnostic("note", "guessable", words)
        else:
            yield Diagnostic("warning", "guessable", f"{why} the receipts of {where}")
    if packed.quoting:
        where = runs_in_words(runs(packed.quoting))
        yield Diagnostic("warning", "quoted", f"entries that are shown quote withheld ones: {where}")
    for what in packed.also_quoting:
        yield Diagnostic("warning", "quoted", f"{what} quotes withheld words")


def _text(written: str | None, option: str) -> str:
    """Return an option's text. Raises `BadParameter` for bytes that are no text."""
    text = written or ""
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise click.BadParameter("expected text in UTF-8, found other bytes", param_hint=f"'{option}'")
    return text


def _positions(conversation: Conversation, written: Any) -> list[int]:
    spans = position_ranges(written, partial(resolve, conversation))
    return list(dict.fromkeys(at for span in spans for at in range(span.first, span.last + 1)))
