"""Quoting of words that are not the reader's own: delimited, and unable to break out.

The law: no foreign text holds a delimiter, a marker or a remark of ours, unescaped. A forged `<message …>` or
`</message>` is written with `&lt;`. A line that begins like a marker of the plain API (`User:`) or a remark
(`[no result …]`) gets a backslash, and nothing else is changed.

A look-alike counts as what it looks like. Until `requests@6` texts were searched in NFKC, and without
invisible characters; now by the signs that Unicode TR 39 says look like ours, and in Markdown's dress.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import accumulate
from unicodedata import category, normalize

from stenolog.domain.parts import FilePart, ImagePart, TextPart

NO_BRACKETS = str.maketrans("[]", "()")
TOO_LARGE = "is too large to be shown"
TAGS = ("message", "tool-result", "summary", "memory", "routing", "note")
# Possessive quantifiers: a text of many blanks behind `<` is still read in linear time.
_FORGED = re.compile(rf"<(?=\s*+(?:/\s*+)?(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)
_ENDS = r"\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_BLANKS = rf"[^\S\n{_ENDS}]*"
END_OF = "END OF"
"""Prefix of a title at the end of a block of notes."""
# A set of characters at its beginning, in place of `^`, makes long scans several times faster.
_MARKER = re.compile(
    rf"([\n{_ENDS}]{_BLANKS})"
    rf"(?=(?i:User|Assistant|System|Tool)(?:{_BLANKS}\([^)\n{_ENDS}]*\))?{_BLANKS}:)"
)
"""A marker of the plain API, after the end of a line."""
_SHORT_MARKER = re.compile(_MARKER.pattern.replace(r"]*\)", r"]{0,200}\)"))
"""A marker with a label of 200 characters at most, as pipelines before `requests@6` looked for."""
REMEMBERED = 16_384
"""Characters up to which a text's markers are cached."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters without a shape of their own that are not of the category Cf."""
_ATTRIBUTE = re.compile(rf'[<>"\n{_ENDS}]')
_NAME = re.compile(rf"[()\n:{_ENDS}]")


class _Looks(dict[int, str]):
    """A table for `str.translate` from each character to the text that it looks like."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        unseen = category(char) == "Cf" or _UNSEEN.match(char)
        self[code] = looks = "" if unseen else normalize("NFKC", char)
        return looks


_LOOKS = _Looks()


def looks(text: str) -> str:
    """Return the text as a reader sees it: in NFKC, character by character, without invisible ones."""
    # ASCII has no look-alikes, and most texts are ASCII.
    return text if text.isascii() else text.translate(_LOOKS)


def _places(text: str, found: list[int], shapes: Mapping[int, str] = _LOOKS) -> list[int]:
    if text.isascii() or not found:
        return found
    # One character may look like several, or like none, so places have to be mapped back.
    starts = [0, *accumulate(len(shapes[ord(char)]) for char in text)]
    return [min(bisect_right(starts, place) - 1, len(text)) for place in found]


def put(sign: str, text: str, found: list[int], shapes: Mapping[int, str] = _LOOKS, *, over: int = 0) -> str:
    """Return the text with a sign at each place of its visible form, replacing `over` characters."""
    made, last = [], 0
    for place in _places(text, found, shapes):
        made += [text[last:place], sign]
        last = place + over
    return "".join([*made, text[last:]])


def escape(text: str) -> str:
    """Return the text with every forged delimiter made harmless."""
    if not _may_hold("<", text):
        return text
    if text.isascii():
        return _FORGED.sub("&lt;", text)
    return put("&lt;", text, [found.start() for found in _FORGED.finditer(looks(text))], over=1)


def _blotted(signs: re.Pattern[str], text: str) -> str:
    if text.isascii():
        return signs.sub("_", text)
    return "".join("_" if signs.search(char) or signs.search(looks(char)) else char for char in text)


def quote(tag: str, text: str, **attributes: str) -> str:
    """Return the text between delimiters: `<tag key="value">`, the text, `</tag>`, each on its own line."""
    shown = "".join(f' {key}="{_blotted(_ATTRIBUTE, value)}"' for key, value in attributes.items() if value)
    return f"<{tag}{shown}>\n{escape(text)}\n</{tag}>"


def heading_name(name: str, template: str) -> str:
    """Return a name for a heading: on one line, and without the other signs of a heading."""
    plain = " ".join(name.split())
    for sign in template.partition("{name}")[::2]:
        plain = plain.replace(sign.strip(), "_") if sign.strip() else plain
    return plain


def under(heading: str, text: str) -> str:
    """Return the text under a line that names its author; no delimiter can begin or end in it."""
    return f"{heading}\n{escape(text)}"


def guard(text: str, openings: Iterable[str]) -> str:
    """Return the text with a backslash before each line that begins like one of ours."""
    for opening in openings:
        begins = r"\s*".join(map(re.escape, looks(opening).split()))
        line = rf"(?:^|(?<=[{_ENDS}]))({_BLANKS})(?={begins})"
        found = re.finditer(line, looks(text), flags=re.IGNORECASE | re.MULTILINE)
        text = put("\\", text, [each.end() for each in found])
    return text


def label(name: str) -> str:
    """Return a name for a marker of the plain API, which it cannot break out of."""
    return _blotted(_NAME, name)


def markers(text: str) -> Iterator[int]:
    """Yield the line start of each text that could be taken for a marker of the plain API.

    Case does not matter, and neither do blanks and line ends before it.
    """
    return iter(_places(text, [found.start() for found in _MARKER.finditer("\n" + looks(text))]))


def unforged(text: str) -> str:
    """Return the text with a backslash before everything that could be taken for a marker."""
    return _remembered(text) if len(text) <= REMEMBERED else _unforged(text)


def _unforged(text: str) -> str:
    if text.isascii():
        return _SHORT_MARKER.sub(r"\1\\", f"\n{text}")[1:]
    return put("\\", text, [each.end() - 1 for each in _SHORT_MARKER.finditer("\n" + looks(text))])


_remembered = lru_cache(maxsize=1_024)(_unforged)


def note(text: str) -> str:
    """Return a remark of stenolog's own, in brackets."""
    return f"[{text}]"


def placeholder(part: ImagePart | FilePart, why: str) -> str:
    """Return the line in place of a picture or a file that cannot be sent."""
    name = f" {part.name}" if isinstance(part, FilePart) and part.name else ""
    what = " ".join(f"{part.type}{name} ({part.media_type})".split())
    return f"[{escape(what).translate(NO_BRACKETS)} {why}]"


# What follows is in force from `requests@6` on.
REMARKS = (
    "a preview",
    "a reminder of what",
    "answer in json",
    "calls",
    "did",
    "earlier messages were left out",
    "file",
    "image",
    "interrupted by",
    "it is your turn",
    "no result",
    "only the provider that",
    "summary of the earlier",
    "the answer",
    "the conversation begins",
    "there was a result",
    "what follows takes",
    "what you are shown",
    "your answer",
)
"""Beginnings of stenolog's remarks in a request, but for those of cuts, which a tool's own result has."""
_LIKE = {
    "a": "\u0430\u0410\u03b1\u0391\u0251\u1d00\u13aa\ua4ee",
    "b": "\u042c\u0432\u0412\u03b2\u0392\u0299",
    "c": "\u0441\u0421\u03f2\u03f9\u1d04\ua4da",
    "d": "\u0501\u13a0\ua4d3\u1d05",
    "e": "\u0435\u0415\u03b5\u0395\u04bd\u1d07\u13ac\ua4f0\u212e",
    "f": "\ua730\u03dd\ua4dd",
    "g": "\u0581\u0261\u0262\u050c\ua4d6",
    "h": "\u04bb\u041d\u043d\u0397\u029c\ua4e7",
    "i": "\u0456\u0406\u0131\u0269\u03b9\u0399\u04cf\u04c0\u026a\ua4f2\u13a5",
    "j": "\u0458\u0408\u1d0a\ua4d9",
    "k": "\u043a\u041a\u03ba\u039a\u1d0b\ua4d7",
    "l": "\u029f\ua4e1\u13de",
    "m": "\u043c\u041c\u039c\u1d0d\ua4df\u13b7",
    "n": "\u0578\u057c\u043f\u03b7\u039d\u0274\ua4e0",
    "o": "\u043e\u041e\u03bf\u039f\u03c3\u0585\u1d0f\ua4f3",
    "p": "\u0440\u0420\u03c1\u03a1\u1d18\ua4d1",
    "r": "\u0433\u0413\u1d26\u0280\ua4e3\u13a1",
    "s": "\u0455\u0405\ua731\ua4e2\u13da\u054f",
    "t": "\u0442\u0422\u03c4\u03a4\u1d1b\ua4d4\u13a2",
    "u": "\u03c5\u057d\u054d\u028b\u1d1c\ua4f4",
    "v": "\u0475\u0474\u03bd\u1d20\ua4e6",
    "w": "\u0461\u051d\u051c\u1d21\ua4ea\u0561",
    "x": "\u0445\u0425\u03c7\u03a7\ua4eb",
    "y": "\u0443\u0423\u04af\u04ae\u03b3\u03a5\u028f\ua4ec",
    "z": "\u0396\u03b6\u1d22\ua4dc",
    "<": "\u02c2\u1438\u16b2\u2039\u276e\U0001d236\u3008\u27e8\u29fc\u276c\u2770\u2991\u227a",
    ">": "\u02c3\u1433\u203a\u276f\u3009\u27e9\u29fd\u276d\u2771\u2992\u227b\U00016f3f",
    "/": "\u2044\u2215\u1735\u2041\u2571\u27cb\u29f8\u2cc6\u30ce\u4e3f\u31d3\u3033\U0001d23a",
    ":": "\u0589\u05c3\u0703\u0704\u0903\u0a83\u16ec\u1803\u1809\u205a\u2236\u02d0\u02f8\ua4fd\ua789\ufe30",
    "(": "\u2768\ufd3e",
    ")": "\u2769\ufd3f",
    "[": "\u2772\u3014\u3010\u3016\u27e6\u2045",
    "]": "\u2773\u3015\u3011\u3017\u27e7\u2046",
    "-": "\u2212\u02d7\u2043",
    "*": "\u2217\u204e\u066d",
}
"""The signs that our own are made of, each with those that look like it."""
_SIGN = {like: sign for sign, likes in _LIKE.items() for like in likes}
# With what Unicode makes of one: in vertical text, in full width, with a stroke.
_BRACKETS = {
    "<": "\u226e\u2280\u2329\ufe3f\ufe64\uff1c" + _LIKE["<"],
    "[": "\ufe17\ufe39\ufe3b\ufe47\ufe5d\uff3b" + _LIKE["["],
}
"""The brackets that our signs begin with, each with all that look like it."""
_BRACKET = re.escape("[" + _BRACKETS["["])
_OPENED_LINE = re.compile(rf"[\n{_ENDS}][^A-Za-z0-9\n{_ENDS}{_BRACKET}]*+[{_BRACKET}]")
"""A line that may look like a remark: no letter or digit of ASCII before the first bracket."""


class _Skeleton(dict[int, str]):
    """A table for `str.translate` from each character to those of our signs that it looks like."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        plain = "" if _UNSEEN.match(char) else _SIGN.get(char) or normalize("NFKD", char)
        self[code] = skeleton = "".join(map(_plain, plain))
        return skeleton


def _plain(char: str) -> str:
    kind = category(char)
    # A stroke through a letter or an accent makes no other sign of it.
    return "" if kind in ("Cf", "Mn", "Me") else "-" if kind == "Pd" else _SIGN.get(char, char)


_SKELETON = _Skeleton()
_ALIKE = str.maketrans({"i": "[il1|]", "l": "[il1|]", "m": "(?:m|rn)", "o": "[o0]", " ": r"\s+"})


def _any(*words: str) -> str:
    return rf"(?:{'|'.join(words).translate(_ALIKE)})(?!\w)"


# Possessive quantifiers: every text is read in linear time.
_BETWEEN = r"[\s\x00-\x1f\x7f]*+"
_DRESS = rf"(?:[*_~#>`]|[^\S\n{_ENDS}])*+"
"""Blanks, and the signs by which Markdown makes a word bold, a heading or a quotation."""
# At the end of a part, since the next may go on.
_LIKE_DELIMITER = re.compile(rf"<(?={_BETWEEN}(?:/{_BETWEEN})?(?:{_any(*TAGS)}|\Z))", re.IGNORECASE)
_BEGINS = rf"([\n{_ENDS}]{_BLANKS})(?={_DRESS}"
_LABEL = rf"[(\[][^\n{_ENDS}]*[)\]]{_DRESS}"
_LIKE_MARKER = re.compile(
    rf"{_BEGINS}{_any('user', 'assistant', 'system', 'tool')}{_DRESS}(?:{_LABEL})?:)", re.IGNORECASE
)


@cache
def _remark() -> re.Pattern[str]:
    """Return the pattern of a remark, which takes two milliseconds to make."""
    return re.compile(rf"{_BEGINS}\[{_DRESS}{_any(*REMARKS)})", re.IGNORECASE)


# To make the visible form of a text takes ten times as long as to see that most texts need none.
def _may_hold(bracket: str, text: str) -> bool:
    return bracket in text or (not text.isascii() and any(map(text.__contains__, _BRACKETS[bracket])))


def without_delimiters(text: str) -> str:
    """Return the text with every forged delimiter made harmless."""
    if not _may_hold("<", text):
        return text
    if text.isascii():
        return _LIKE_DELIMITER.sub("&lt;", text)
    found = [found.start() for found in _LIKE_DELIMITER.finditer(text.translate(_SKELETON))]
    return put("&lt;", text, found, _SKELETON, over=1)


def without_remarks(text: str) -> str:
    """Return the text with a backslash before each line that begins like a remark of ours."""
    if not _may_hold("[", text) or not _OPENED_LINE.search(f"\n{text}"):
        return text
    return _backslashed(_remark(), text)


def harmless(text: str) -> str:
    """Return a foreign text without delimiters and remarks of ours."""
    return without_remarks(without_delimiters(text))


def unmarked(text: str) -> str:
    """Return the text with a backslash before everything that could be taken for a marker."""
    return _unmarked_remembered(text) if len(text) <= REMEMBERED else _unmarked(text)


def _unmarked(text: str) -> str:
    return _backslashed(_LIKE_MARKER, text)


_unmarked_remembered = lru_cache(maxsize=1_024)(_unmarked)


def _backslashed(lines: re.Pattern[str], text: str) -> str:
    if text.isascii():
        return lines.sub(r"\1\\", f"\n{text}")[1:]
    found = [each.end() - 1 for each in lines.finditer("\n" + text.translate(_SKELETON))]
    return put("\\", text, found, _SKELETON)


def call_in_prose(name: str, arguments: str) -> str:
    """Return a tool call as a line of text."""
    return f"[calls {name} {arguments}]"


UNREADABLE = TextPart(text=quote("summary", note("only the provider that wrote it can read it")))
