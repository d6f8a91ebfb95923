"""Text of prompts without what changes from one session to the next: dates, ids, paths, git's status.

>>> masked("Today's date is 2026-01-05, in /home/user/bakery.")
"Today's date is [date], in [path]."
"""

from __future__ import annotations

import re

MONTHS = (
    "Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|"
    "Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?"
)
DAYS = "(?:Mon|Tue(?:s)?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
TREE = "│├└┌─"
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, flags), instead)
    for pattern, instead, flags in (
        # Claude Code's header is made anew for each release, and partly for each session.
        (r"^x-anthropic-billing-header:.*$", "[billing header]", re.MULTILINE),
        # A status ends where the next part of the prompt begins.
        (
            r"^(gitStatus|git status)\b.*?(?=^\s*#|^\s*<|\Z)",
            "[git status]\n",
            re.MULTILINE | re.DOTALL | re.I,
        ),
        (
            r"^(\W*(?:platform|os version|shell|(?:primary |current )?working directory|cwd|model|username|"
            r"is (?:a |directory a )?git repo(?:sitory)?|current branch|main branch[^:]*|"
            r"(?:current |today's )?(?:date|time|date and time)|time ?zone|session id|temporary directory)"
            r"\b[^:\n]*): .*$",
            r"\1: [environment]",
            re.MULTILINE | re.I,
        ),
        (rf"^.*[{TREE}].*(?:\n.*[{TREE}].*)*$", "[folders]", re.MULTILINE),
        (rf"(?:{DAYS},? )?(?:{MONTHS}) \d{{1,2}},? \d{{4}}\b", "[date]", 0),
        (rf"(?:{DAYS},? )?\d{{1,2}} (?:{MONTHS}),? \d{{4}}\b", "[date]", 0),
        (
            r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?Z| ?[+-]\d{2}:?\d{2})?)?",
            "[date]",
            0,
        ),
        (r"\b\d{1,2}/\d{1,2}/\d{4}\b", "[date]", 0),
        (r"\b\d{1,2}:\d{2}(?::\d{2})?(?: ?[AP]M)?\b", "[time]", 0),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "[id]", re.I),
        (r"\b(?:msg|toolu|call|resp|ses|sess|rs|fc|req|thread|user|acc|org)_[A-Za-z0-9]{8,}\b", "[id]", 0),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b", "[hash]", 0),
        (r"\bhttps?://(?:127\.0\.0\.1|localhost)(?::\d+)?[^\s\"'`)]*", "[address]", 0),
        (r"(?<![\w/.])(?:~|[A-Z]:\\|/(?=[\w.@+-]+/))[\w.@+/\\~-]*[\w/]", "[path]", 0),
        # One release says of itself which model it speaks with.
        (r"\b(?:claude|gpt|gemini|o[134])-[\w.-]*\w(?:\[\w+\])?", "[model]", 0),
        (r"\b(?:Opus|Sonnet|Haiku|Fable|Claude) \d+(?:\.\d+)?\b", "[model]", 0),
        (r"\[model\] \(\w+ context\)", "[model]", 0),
    )
)


def masked(text: str) -> str:
    """Return a text with a word in the place of each part that is volatile."""
    for pattern, instead in _MASKS:
        text = pattern.sub(instead, text)
    return text
