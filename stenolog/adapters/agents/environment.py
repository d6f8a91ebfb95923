"""Which environment variables the programs that stenolog starts inherit: a list, and never all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

COMMON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "TZ", "TMPDIR", "TMP", "TEMP"),
    *("LANG", "LANGUAGE", "LC_*", "XDG_*", "SSL_CERT*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NODE_ENV", "NODE_OPTIONS", "NODE_PATH", "NODE_EXTRA_CA_CERTS", "NODE_USE_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SYSTEMROOT", "APPDATA", "LOCALAPPDATA"),
)
"""Names that every program inherits, as patterns without regard to case."""
LOGINS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "claude": ("ANTHROPIC_*", "CLAUDE_*", "CLAUDECODE", "IS_SANDBOX"),
        "codex": ("OPENAI_*", "CODEX_*"),
        "gemini": ("GEMINI_*", "GOOGLE_*"),
        "qwen": ("OPENAI_*", "QWEN_*", "DASHSCOPE_*"),
        "copilot": ("COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"),
        "opencode": ("OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*"),
    }
)
"""Further names that an agent's login and settings need, by a word in its command."""
NEVER = ("*BOT_TOKEN*", "*TELEGRAM*")
"""Names that no pattern matches: the tokens of chats. A name written out does."""


def inherited(
    environment: Mapping[str, str], command: Sequence[str], inherit: Sequence[str] = ()
) -> dict[str, str]:
    """Return the variables that a command inherits; `inherit` are names and patterns besides."""
    words = [word.rpartition("/")[2].lower() for word in command]
    logins = (names for agent, names in LOGINS.items() if any(agent in word for word in words))
    patterns = [*COMMON, *(name for names in logins for name in names)]
    named = {name for name in inherit if name in environment}
    return {
        name: value
        for name, value in environment.items()
        if name in named
        or (
            (_matches(name.upper(), patterns) or _matches(name, inherit))
            and not _matches(name.upper(), NEVER)
        )
    }


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
