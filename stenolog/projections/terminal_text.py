"""Stored text made safe to show: on a terminal, and in a tool call that a person decides about."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from hashlib import sha256
from typing import Any, TextIO

from stenolog.domain.values import CallRef

CODE_LENGTH = 5
"""Characters of a code as it is shown: one of 33 million, so that an old code names no new call by chance."""
LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""The letters of codes, without those that are taken for one another."""
FENCES = ("`" * 3, "~" * 3)
_INVISIBLE = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
# Blank or zero-width letters and marks whose category does not say so: fillers, joiners, selectors, Braille.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
# Punctuation that looks like ASCII, beside what compatibility normalisation finds.
_LIKE_ASCII = frozenset("\u01c3\u02d0\u037e\u2010\u2011\u2212\u2044\u2215\u2236\u29f8\ua789")
# Full-width punctuation is ordinary in Chinese and Japanese text.
_ORDINARY = frozenset("\uff0c\uff01\uff1f\uff1a\uff1b\uff08\uff09\u3001\u3002\u300c\u300d")
# Cyrillic and Greek letters that look like Latin ones.
_LIKE_LATIN = frozenset(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u04cf\u051b"
    "\u051d\u050d\u044a\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423"
    "\u0425\u0405\u0406\u0408\u050c\u051a\u051c\u04ae\u0391\u0392\u0395\u0396\u0397\u0399"
    "\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b1\u03b9\u03bd\u03bf\u03c4\u03c5"
    "\u03c7\u03c1\u03ba"
)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_BLANKS, _BLANK_LINES = re.compile(r"[ \t]{40,}"), re.compile(r"\n(?:[ \t]*\n){3,}")
_TOKEN = re.compile(r"[^\s\"]+")


def call_code(call: CallRef, name: str, arguments: str) -> str:
    """Return the code of a call, made of its entry, its index there, its tool, and its raw arguments."""
    named = "".join(f"{len(part)}:{part}" for part in (call.entry, str(call.index), name, arguments))
    number = int.from_bytes(sha256(named.encode("utf-8", "surrogatepass")).digest()[:5])
    return "".join(LETTERS[number >> shift & 31] for shift in range(0, 5 * CODE_LENGTH, 5))


def shown_call(name: str, arguments: str) -> str:
    """Return the call as one would write it in a program; see `in_plain_sight`."""
    return in_plain_sight(f"{name}({arguments})")


def in_plain_sight(text: str) -> str:
    """Return the text with characters escaped that are invisible or look like others.

    Escaped are control, format and unassigned characters, spaces other than U+0020, letters and signs that
    look like ASCII ones, Cyrillic and Greek letters in a word with Latin ones, and strings whose Cyrillic or
    Greek letters all look like Latin ones. Line breaks and tabs stay, but long gaps are counted instead.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return _without_fences(_without_gaps(text))
    cut, pieces = 0, list[str]()
    for found in _STRING.finditer(text):
        pieces += [_plain(text[cut : found.start()]), _plain(found[0])]
        cut = found.end()
    return _without_fences(_without_gaps("".join([*pieces, _plain(text[cut:])])))


def _plain(text: str) -> str:
    """Return one string of the arguments, or the text between two, without invisible characters."""
    letters = [char for char in text if char.isalpha() and not char.isascii()]
    foreign = [char for char in letters if _script(char) in ("CYRILLIC", "GREEK")]
    alike = bool(foreign) and _LIKE_LATIN.issuperset(foreign)
    return _TOKEN.sub(lambda word: _word(word[0], alike), "".join(map(_seen, text)))


def _word(word: str, alike: bool) -> str:
    if word.isascii():
        return word
    scripts = {_script(char) for char in word if char.isalpha()}
    foreign = scripts & {"CYRILLIC", "GREEK"}
    if not foreign or not (alike or "LATIN" in scripts):
        return word
    return "".join(_escaped(char) if _script(char) in foreign and char.isalpha() else char for char in word)


def _seen(char: str) -> str:
    if char in "\n\t" or " " <= char <= "~":
        return char
    if unicodedata.category(char) in _INVISIBLE or _BLANK.match(char) or char.isspace():
        return _escaped(char)
    stands_for = unicodedata.normalize("NFKC", char)
    if char in _LIKE_ASCII or (stands_for != char and stands_for.isascii() and char not in _ORDINARY):
        return _escaped(char)
    return char


@cache
def _script(char: str) -> str:
    return unicodedata.name(char, "").partition(" ")[0]


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _without_gaps(text: str) -> str:
    text = _BLANKS.sub(lambda gap: f"[{len(gap[0]):,} blanks]", text)
    return _BLANK_LINES.sub(lambda gap: f"\n[{gap[0].count(chr(10)) - 1:,} blank lines]\n", text)


def _without_fences(text: str) -> str:
    """Return the text so that no line of it can end a block of code.

    Backticks or tildes mark a block, whichever the text has not; if it has both, the backticks are escaped.
    """
    if not all(fence in text for fence in FENCES):
        return text
    return text.replace("```", "\\u0060\\u0060\\u0060")


# C0, DEL and C1 controls; marks, embeddings, overrides and isolates of direction; line and paragraph
# separators; invisible tags; halves of surrogate pairs.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def safe(text: str) -> str:
    """Return the text with everything that a terminal would obey spelled out; tabs and line feeds stay."""
    return _UNSAFE.sub(_spelled, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return the text on one line, blanks run together."""
    return " ".join(safe(text).split())


def safe_json(data: Any, *, indent: int | None = None, spaced: bool = False) -> str:
    """Return the data as JSON that a terminal does not obey; its meaning stays.

    `spaced` puts a blank after commas and colons, for line breaks.
    """
    separators = None if indent or spaced else (",", ":")
    text = json.dumps(data, ensure_ascii=False, indent=indent, separators=separators)
    return _UNSAFE.sub(_escaped_match, text)


class EscapedStream:
    """A stream of JSON for a terminal: the same data, and not obeyed."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write JSON text."""
        return self.stream.write(_UNSAFE.sub(_escaped_match, text))


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escaped_match(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]
