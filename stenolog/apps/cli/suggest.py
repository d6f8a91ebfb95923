"""Suggestions for misspelt words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

import click

LIKE = 0.6
"""The least likeness of a suggestion, from 0 to 1."""


def closest(written: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known words most like the written one, best first.

    Beginnings of known words count too.
    """
    likeness = {word: max(_like(written, word), _like(written, word[: len(written)])) for word in known}
    alike = sorted((word for word in likeness if likeness[word] >= LIKE), key=lambda word: -likeness[word])
    return alike[:most]


def _like(written: str, word: str) -> float:
    matcher = SequenceMatcher(None, written.casefold(), word.casefold())
    # The two upper bounds are quick, and nearly all words fail them.
    if matcher.real_quick_ratio() < LIKE or matcher.quick_ratio() < LIKE:
        return 0.0
    return matcher.ratio()


def did_you_mean(written: str, known: Iterable[str], most: int = 3) -> str:
    """Return "; did you mean 'a' or 'b'?", or ""."""
    alike = [repr(word) for word in closest(written, known, most)]
    if not alike:
        return ""
    *first, last = alike
    return f"; did you mean {', '.join(first)} or {last}?" if first else f"; did you mean {last}?"


def where_the_position_goes(error: click.UsageError) -> str:
    """Return how a command takes a swapped position, or ""."""
    if error.ctx is None:
        return ""
    command = error.ctx.command
    extra = re.search(r"unexpected extra argument \((\d+)\)", error.message)
    if extra and any("--at" in option.opts for option in command.params):
        return f"; a position is given by --at {extra[1]} here"
    if extra and any("--younger-than" in option.opts for option in command.params):
        return "; a hold is of a conversation, or of the times --from and --to, not of an entry"
    arguments = (each for each in command.params if isinstance(each, click.Argument))
    words = " ".join(each.make_metavar(error.ctx) for each in arguments)
    if isinstance(error, click.NoSuchOption):
        return _where_the_option_goes(error.option_name, error.ctx, words)
    return ""


def _where_the_option_goes(option: str, ctx: click.Context, words: str) -> str:
    """Return how a command takes an option that it lacks."""
    path, known = ctx.command_path, {name for each in ctx.command.params for name in each.opts}
    if ctx.parent is None:
        return f" Options go after the command: {path} COMMAND {option} …"
    if option == "--at" and {"--after", "--before"} <= known:
        return " Say --after ENTRY or --before ENTRY."
    if option == "--at" and "ENTRY" in words:
        return f" A position needs no option here: {path} {words}"
    if option == "--as" and "--raw" in known:
        return f" To write a request: stenolog export {words} --as curl, json or pytest"
    if option == "--agent" and "AGENT" in words:
        return f" An agent needs no option here: {path} {words}"
    return ""
