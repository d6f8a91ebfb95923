"""Secrets in messages, found by the forms that their issuers give them, and replaced by their kinds.

>>> [found.kind for found in secrets_in("key = AKIAIOSFODNN7EXAMPLE")]
['aws-access-key']
>>> redacted("token ghp_0123456789abcdefghijklmnopqrstuvwxyz!")
('token [redacted github-token]!', ('github-token',))
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_FORMS: tuple[tuple[str, str, str], ...] = (
    (
        "private-key",
        "private",
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----BEGIN )){16,8000}?"
        r"-----END (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
    ),
    ("anthropic-key", "sk-ant-", r"\bsk-ant-(?:api|admin|oat|sid)\d\d-[\w-]{20,}"),
    ("openrouter-key", "sk-or-v1-", r"\bsk-or-v1-[0-9a-f]{32,}"),
    ("openai-key", "sk-", r"\bsk-(?:proj|svcacct|admin|None)?-?[A-Za-z0-9_-]{20,}"),
    ("google-api-key", "aiza", r"\bAIza[\w-]{35}"),
    ("google-oauth", "ya29. gocspx- 1//0", r"\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}|\b1//0[\w-]{30,}"),
    ("aws-access-key", "akia asia abia acca a3t", r"\b(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}\b"),
    (
        "aws-secret",
        "aws",
        r"(?i:aws.{0,20}(?:secret|key).{0,20}?[\"'=:\s])(?P<secret>[A-Za-z0-9/+]{40})"
        r"(?![A-Za-z0-9/+=])",
    ),
    (
        "github-token",
        "ghp_ gho_ ghs_ ghu_ ghr_ github_pat_",
        r"\bgh[opsur]_[A-Za-z0-9]{36,}|\bgithub_pat_\w{50,}",
    ),
    (
        "gitlab-token",
        "glpat- gldt- glrt- gloas- glptt- glcbt- glsoat- glft- glimt- glagent-",
        r"\bgl(?:pat|dt|rt|oas|ptt|cbt|soat|ft|imt|agent)-[\w-]{20,}",
    ),
    ("bitbucket-token", "atbb atctt3", r"\bATBB[A-Za-z0-9]{24,}|\bATCTT3[\w=-]{30,}"),
    ("atlassian-token", "atatt3", r"\bATATT3[\w=-]{30,}"),
    ("slack-token", "xox xapp-", r"\bxox[abeoprs]-[\w-]{10,}|\bxapp-\d-[\w-]{20,}"),
    (
        "slack-webhook",
        "hooks.slack.com",
        r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[\w/]{20,}",
    ),
    (
        "discord-webhook",
        "/api/webhooks/",
        r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d+/[\w-]{30,}",
    ),
    ("telegram-token", ":aa", r"\b\d{8,10}:AA[\w-]{32,34}\b"),
    (
        "stripe-key",
        "_live_ _test_ _prod_ whsec_",
        r"\b(?:sk|rk|pk)_(?:live|test|prod)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{24,}",
    ),
    ("square-key", "sq0 eaaa", r"\bsq0(?:atp|csp|idp)-[\w-]{22,}|\bEAAA[\w-]{60}"),
    ("paypal-token", "access_token$", r"\baccess_token\$production\$[a-z0-9]{16}\$[0-9a-f]{32}"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("twilio-key", "twilio", r"(?i:twilio[\s\S]{0,80}?)\b(?P<secret>(?:SK|AC)[0-9a-f]{32})\b"),
    ("sendgrid-key", "sg.", r"\bSG\.[\w-]{16,32}\.[\w-]{16,64}"),
    ("mailgun-key", "key-", r"\bkey-[0-9a-f]{32}\b"),
    ("mailchimp-key", "-us", r"\b[0-9a-f]{32}-us\d{1,2}\b"),
    ("npm-token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("pypi-token", "pypi-age", r"\bpypi-AgE[\w-]{50,}"),
    ("rubygems-key", "rubygems_", r"\brubygems_[0-9a-f]{48}\b"),
    ("docker-token", "dckr_", r"\bdckr_(?:pat|oat)_[\w-]{20,}"),
    ("huggingface-token", "hf_ api_org_", r"\bhf_[A-Za-z0-9]{30,}|\bapi_org_[A-Za-z]{30,}"),
    ("groq-key", "gsk_", r"\bgsk_[A-Za-z0-9]{40,}"),
    ("xai-key", "xai-", r"\bxai-[A-Za-z0-9]{60,}"),
    ("perplexity-key", "pplx-", r"\bpplx-[A-Za-z0-9]{40,}"),
    ("replicate-token", "r8_", r"\br8_[A-Za-z0-9]{30,}"),
    ("databricks-token", "dapi", r"\bdapi[0-9a-f]{32}(?:-\d)?\b"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"\bdo[opr]_v1_[0-9a-f]{64}\b"),
    ("cloudflare-key", "v1.0-", r"\bv1\.0-[0-9a-f]{24}-[0-9a-f]{146}\b"),
    ("fly-token", "fo1_ fm1 fm2", r"\bfo1_[\w-]{40,}|\bfm[12][ar]?_[A-Za-z0-9+/=]{80,}"),
    ("vercel-token", "vcp_ vck_ vci_ vcr_ vca_", r"\bvc[pkira]_[A-Za-z0-9]{24,}"),
    ("netlify-token", "nfp_ nfo_ nfc_ nfu_ nfb_", r"\bnf[pocub]_[A-Za-z0-9]{36,}"),
    ("supabase-key", "sbp_ sb_secret_", r"\bsbp_[0-9a-f]{40}\b|\bsb_secret_[\w-]{20,}"),
    ("planetscale-token", "pscale_", r"\bpscale_(?:tkn|oauth|pw)_[\w.=-]{32,}"),
    ("linear-key", "lin_api_ lin_oauth_", r"\blin_(?:api|oauth)_[A-Za-z0-9]{40,}"),
    ("notion-token", "ntn_ secret_", r"\bntn_[A-Za-z0-9]{40,}|\bsecret_[A-Za-z0-9]{43}\b"),
    ("airtable-token", "pat", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b"),
    ("figma-token", "figd_ figo_ figu_", r"\bfig[dou]_[\w-]{36,}"),
    ("postman-key", "pmak-", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b"),
    ("newrelic-key", "nrak- nrii-", r"\bNRAK-[A-Z0-9]{27}\b|\bNRII-[\w-]{32}"),
    ("grafana-token", "glc_ glsa_", r"\bgl(?:c|sa)_[A-Za-z0-9+/=_]{32,}"),
    ("sentry-token", "sntr", r"\bsntr(?:ys|yu)_[\w+/=-]{40,}"),
    (
        "datadog-key",
        "datadog dd_ dd-",
        r"(?i:(?:dd|datadog).{0,20}(?:api|app).{0,10}key.{0,5}?[\"'=:\s])(?P<secret>[0-9a-f]{32,40})"
        r"\b",
    ),
    (
        "hashicorp-token",
        "hvs. hvb. hvr. .atlasv1.",
        r"\bhv[sbr]\.[\w-]{24,}|\b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}",
    ),
    ("pulumi-token", "pul-", r"\bpul-[0-9a-f]{40}\b"),
    ("doppler-token", "dp.", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9]{40,}"),
    ("age-key", "age-secret-key-", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b"),
    ("azure-storage-key", "accountkey=", r"(?i:AccountKey=)(?P<secret>[A-Za-z0-9+/]{86}==)"),
    ("azure-sas", "sig=", r"(?i:[?&]sig=)(?P<secret>[A-Za-z0-9%+/]{40,}(?:%3D|=)?)"),
    (
        "jwt",
        "eyj",
        # In "eyJ-eyJ-…" each part may begin one; behind a hyphen it is short, or time grows as the square.
        r"(?:(?<![\w-])eyJ[\w-]{8,}|(?<=-)eyJ[\w-]{8,200})\.eyJ[\w-]{8,}\.[\w-]{8,}",
    ),
    (
        "url-password",
        "://",
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"'<>]{0,80}:(?P<secret>[^\s:/@\"'<>]{4,200})"
        r"@(?=[\w.\[-])",
    ),
    (
        "bearer",
        "authorization",
        r"(?i:\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+)"
        r"(?P<secret>[\w.~+/=-]{12,})",
    ),
    (
        "assigned",
        "key token secret passw passphrase",
        r"(?i:(?:api[_-]?key|apikey|secret[_-]?key|client[_-]?secret|access[_-]?token|"
        r"auth[_-]?token|refresh[_-]?token|private[_-]?key|passw(?:or)?d|passphrase|secret|token)"
        r"[\w.-]{0,20}(?:\\?[\"'])?\s*(?:=>|:=|=|:)\s*\\?[\"'])(?P<secret>[^\s\"'\\]{8,200})"
        r"(?=\\?[\"'])",
    ),
    (
        "assigned",
        "key token secret password passwd pwd credential",
        r"(?m:(?:^|(?<=[\"'`]))(?:export )?[A-Z][A-Z0-9_]{0,40}"
        r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|CREDENTIALS?)\s*=\s*)(?P<secret>[^\s\"'\\#$]{8,200})",
    ),
)
"""Kind, anchors in small letters of which one is in each secret or before it, and the form itself."""
_HARMLESS = re.compile(
    r"(?i)^(?:x+|\*+|\.+|<.*>|\$\{?.*|%\(?.*|\{\{.*|(?:your|my|the|an?|some|example|dummy|fake|test|changeme)(?:[\W_].*)?"
    r"|.*(?:example|placeholder|redacted|process\.env|os\.environ|getenv).*|true|false|null|none|undefined)$"
)
"""Values that documents put in place of a secret."""

_ESCAPE = re.compile(r"(?<!\\)\\+(u[0-9a-fA-F]{4}|[nrtbf/])")
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "/": "/"}


class _Form(NamedTuple):
    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    order: int


_COMPILED = tuple(
    _Form(kind, tuple(anchors.split(" ")), re.compile(pattern), order)
    for order, (kind, anchors, pattern) in enumerate(_FORMS)
)
BEFORE, BEHIND = 120, 8_000
"""Characters before an anchor at which a secret may begin, and after it at which it may end."""


class Secret(NamedTuple):
    """A secret: its kind, and its place in the text."""

    kind: str
    first: int
    end: int


def secrets_in(text: str) -> Iterator[Secret]:
    """Yield the secrets in a text in order, also in JSON, however often escaped."""
    plain, places = _unescaped(text)
    small, last = plain.lower(), 0
    if len(small) != len(plain):  # a letter whose small form is two: the places would be others
        small = plain
    found = {secret: order for form in _COMPILED for secret, order in _matches(form, plain, small)}
    for secret in sorted(found, key=lambda each: (each.first, found[each])):
        if secret.first >= last:
            last = secret.end
            yield Secret(
                secret.kind, _index_in_text(places, secret.first), _index_in_text(places, secret.end)
            )


def _unescaped(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a text without JSON's escapes, and indexes of places there and in the original."""
    pieces, places, length, last = list[str](), [(0, 0)], 0, 0
    if "\\" in text:
        for escape in _ESCAPE.finditer(text):
            pieces += [text[last : escape.start()], _character(escape[1])]
            length, last = length + escape.start() - last + 1, escape.end()
            places.append((length, last))
    return "".join([*pieces, text[last:]]), places


def _character(name: str) -> str:
    return chr(int(name[1:], 16)) if name[0] == "u" else _NAMED[name]


def _index_in_text(places: list[tuple[int, int]], at: int) -> int:
    plain, place = places[bisect_right(places, at, key=lambda each: each[0]) - 1]
    return place + at - plain


def _matches(form: _Form, text: str, small: str) -> Iterator[tuple[Secret, int]]:
    name = "secret" if "secret" in form.pattern.groupindex else 0
    for first, end in _windows(form.anchors, small):
        for match in form.pattern.finditer(text, first, end):
            if match.end() == end:  # it may go on behind the window
                match = form.pattern.match(text, match.start()) or match
            secret = Secret(form.kind, *match.span(name))
            if form.kind != "assigned" or not _HARMLESS.match(text[secret.first : secret.end]):
                yield secret, form.order


def _windows(anchors: Iterable[str], small: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text around anchors; searching all for each form is slow."""
    present = [anchor for anchor in anchors if anchor in small]
    places = sorted({at for anchor in present for at in _occurrences(anchor, small)} if present else ())
    first = end = 0
    for at in places:
        if at - BEFORE > end:
            if end:
                yield first, end
            first = at - BEFORE
        end = at + BEHIND
    if end:
        yield max(first, 0), min(end, len(small))


def _occurrences(anchor: str, small: str) -> Iterator[int]:
    at = small.find(anchor)
    while at >= 0:
        yield at
        at = small.find(anchor, at + 1)


def redacted(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text with the kind of each secret in its place, and the kinds, each once."""
    pieces: list[str] = []
    kinds: dict[str, None] = {}
    last = 0
    for kind, first, end in secrets_in(text):
        pieces += [text[last:first], f"[redacted {kind}]"]
        kinds[kind] = None
        last = end
    return "".join([*pieces, text[last:]]), tuple(kinds)
