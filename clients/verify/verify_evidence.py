"""Check a stenolog evidence pack with Python 3.11 alone. docs/reference/evidence.md has the format.

Exit code: 0 verified, 1 refused, 2 not a pack, 3 verified but for signatures (`cryptography` is missing).
"""

import argparse
import json
import os
import re
import sys
from base64 import b64decode
from hashlib import sha256
from itertools import pairwise

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey as PublicKey
except ImportError:
    PublicKey, InvalidSignature = None, ValueError

# Each kind of line: its part of the pack, and its fields in order.
KINDS = """1 evidence conversation entries head streams from to time program statement log_head
2 record stream what value parent salt name previous digest
2 record stream what value parent content previous digest
3 blob base64
3 position id at topic salt payload digest
3 position id at topic size withheld digest
3 position id at topic size erased payload digest
4 request sources body sent
5 heads
6 signature key by of
7 anchor of name answer
8 end sha256"""
PARTS = {tuple(names): int(part) for part, *names in map(str.split, KINDS.splitlines())}
# The JSON that fields hold, if it is not any text. N is a number, H are the digits of a sha256.
VALUES = r"""N evidence entries from to time record stream value parent position at size request end
"H" head digest content blob withheld erased key of sha256
"(H)?" previous
"([0-9a-f]{32})?" salt
"[0-9a-f]{128}" signature
"([A-Za-z0-9+/]{4})*+([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?" base64 answer
"[^\\]*(\\[^n][^\\]*)*" id topic what by
\[\[N,N\](,\[N,N\])*\] streams
\[(N(,N)*)?\] sources
\[\[N,N,"H"\](,\[N,N,"H"\])*\] heads"""
NUMBER = "(0|[1-9][0-9]{0,14}|[1-8][0-9]{15})"
VALUES = re.sub("H", "[0-9a-f]{64}", re.sub("N", NUMBER, VALUES))
PATTERNS = {name: pattern for pattern, *names in map(str.split, VALUES.splitlines()) for name in names}
SENTENCES = """verified: entries 1 to {entries} of {conversation!r}
refused: {check}, line {line}
not a pack
verified, but for the signature in line {line}: entries 1 to {entries} of {conversation!r}""".splitlines()
FAULTS = (ValueError, TypeError, LookupError, AttributeError, RecursionError, InvalidSignature)
compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class CheckError(Exception):
    """The name of a check that failed."""


def need(holds, check):
    if not holds:
        raise CheckError(check)


def parsed(raw):
    """Return a line's values. Raises `CheckError` if it is not in canonical form."""
    try:
        line = json.loads(raw.decode())
        need(type(line) is dict and tuple(line) in PARTS and raw.decode() == compact(line) + "\n", "form")
        patterns = [PATTERNS.get(name, '(?s:".*")') for name in line]
        need(all(map(re.fullmatch, patterns, map(compact, line.values()))), "form")
        return line
    except (ValueError, RecursionError):
        raise CheckError("form") from None


def hashed(*parts):
    """Return the sha256 of parts: bytes, hexadecimal digits, or a list of values that line feeds end."""
    lines = ["".join(f"{one}\n" for one in part).encode() if type(part) is list else part for part in parts]
    return sha256(b"".join(bytes.fromhex(part) if type(part) is str else part for part in lines)).hexdigest()


def rise(numbers):
    return all(one < two for one, two in pairwise(numbers))


class Pack:
    """What was read of a pack. `check_record` and so on check a line, given its fields."""

    def __init__(self, *wanted):
        self.head, self.key, self.log_head = [one and one.lower() for one in wanted]
        self.all = sha256()
        self.lines = self.part = self.record = self.records = self.position = self.unchecked = 0
        self.chained, self.digest, self.history, self.answers, self.blobs = "", "", {}, {}, set()
        self.found = {"withheld": [], "erased": [], "requests": [], "signed": [], "log_head": ""}
        self.times, self.unnamed = [], []

    def read(self, raw):
        """Check the next line. Raises `CheckError`."""
        need(self.part < 8, "end")
        line, before = parsed(raw), self.part
        self.said, self.part, kind = self.said if before else line, PARTS[tuple(line)], next(iter(line))
        need(self.part > before or self.part == before not in (1, 5), "order")
        need((self.position == self.said["entries"]) == (self.part > 3), "order")
        if before < 3 <= self.part:
            self.check_lineage()
        if before < 4 <= self.part:
            need([self.times[0], self.times[-1]] == [self.said["from"], self.said["to"]], "head")
            need(self.said["head"] == self.digest and self.head in (None, self.digest), "head")
        self.of = self.all.hexdigest() if before < 6 else self.of
        need(self.part not in (6, 7) or line["of"] == self.of, "content")
        try:
            if self.part > 1:
                getattr(self, f"check_{kind}")(**line)
        except FAULTS:
            raise CheckError(kind) from None
        self.all.update(raw)

    def check_record(self, record, stream, what, value, parent, previous, digest, name=None, **told):
        follows = previous == self.chained if record == self.record + 1 else record > self.record and previous
        content = told.get("content") or hashed(told["salt"], name.encode())
        need("salt" not in told or bool(told["salt"]) == bool(name), "record")
        self.chained = hashed(previous, [record, stream, what, value, parent], content)
        need(follows and digest == self.chained, "record")
        self.record, self.records = record, self.records + 1
        kind = "begun" if what == "forked" else what
        self.history[kind, stream, value if what == "erased" else 0] = record, name, what, parent, value

    def check_lineage(self):
        wanted, last = ("begun", 0), self.said["streams"][-1][0]
        for (stream, first), (_, following) in pairwise([*self.said["streams"], (0, 2**53)]):
            _, _, *found, value = self.history.get(("begun", stream, 0), (0, None, "", 0, 0))
            need((*found,) == wanted and (value == 0 or "forked" in wanted), "lineage")
            need(first == min(value + 1, following), "lineage")
            wanted = "forked", stream
        told = [self.history.get((what, last, 0), (0, None)) for what in ("begun", "renamed")]
        need(max(told)[1] == self.said["conversation"] and self.said["streams"][0][1] == 1, "lineage")

    def check_blob(self, blob, base64):
        need(hashed(b64decode(base64)) == blob and blob not in self.blobs, "blob")
        self.blobs.add(blob)
        self.unnamed.append(blob)

    def check_position(self, position, id, at, topic, digest, size=0, payload="", salt=None, **hidden):
        text, is_shown = payload.encode(), not hidden
        content, size = (hashed(salt, text), len(text)) if is_shown else (*hidden.values(), size)
        self.digest = hashed(self.digest, [position, id, at, topic, size], content)
        need(position == self.position + 1 and digest == self.digest, "entry")
        self.position, self.times = position, [*self.times[:1], at]
        self.stream = [stream for stream, first in self.said["streams"] if first <= position][-1]
        left = self.history.get(("erased", self.stream, position), (0, None))[1]
        need("erased" not in hidden or left == (payload and hashed(text)), "erasure")
        need(all(is_shown and blob in payload for blob in self.unnamed), "blob")
        self.unnamed = []
        for kind in hidden:
            self.found[kind].append(position)
        if is_shown and '"receipt"' in payload:
            self.answers[position] = payload

    def check_request(self, request, sources, body, sent):
        answer = json.loads(self.answers[request], parse_int=float, parse_constant=int)  # int("NaN") raises
        need(answer["receipt"]["sha256"] == hashed(body.encode()), "request")
        need(not sent or answer["receipt"].get("sent") == hashed(sent.encode()), "request")
        need(rise([0, *sources, request]) and rise([*self.found["requests"][-1:], request]), "request")
        need(not {*sources} & {*self.found["withheld"]}, "request")
        self.found["requests"].append(request)

    def check_heads(self, heads):
        need(re.match(f"[0-9]+-{NUMBER}-", self.said["log_head"]), "log_head")
        newest = self.said["log_head"].split("-")[1]
        rows = [part for *place, digest in heads for part in (place, digest)]
        total = hashed([self.record, newest], self.chained, *rows)
        need(self.said["log_head"] == f"{self.record}-{newest}-{total}", "log_head")
        need(self.record == self.records and rise([stream for stream, *_ in heads]), "log_head")
        need([self.stream, self.position, self.digest] in heads, "log_head")
        self.found["log_head"] = self.said["log_head"]

    def check_signature(self, signature, key, by, of):
        self.found["signed"].append([key, by])
        self.unchecked = self.unchecked or (0 if PublicKey else self.lines)
        if PublicKey:
            text = f"stenolog evidence 1\n{by}\n{of}".encode()
            PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), text)

    def check_anchor(self, anchor, of, name, answer):
        need(anchor != "rfc3161" or bytes.fromhex(of) in b64decode(answer), "anchor")

    def check_end(self, end, sha256):
        need(end == self.lines - 1 and sha256 == self.all.hexdigest(), "end")
        need(self.log_head in (None, self.found["log_head"] or None), "log_head")
        need(self.key in (None, *(key for key, _ in self.found["signed"])), "key")


def verify(lines, head=None, key=None, log_head=None):
    """Return the verdict on a pack, given as lines of bytes: exit, check, line, and what it shows."""
    pack = Pack(head, key, log_head)
    try:
        for pack.lines, raw in enumerate(lines, 1):
            need(pack.part or raw.startswith(b'{"evidence":1,'), "pack")
            pack.read(raw)
        pack.lines += 1
        need(pack.part, "pack")
        need(pack.part == 8, "end")
    except CheckError as error:
        return {"exit": 2 if str(error) == "pack" else 1, "check": str(error), "line": pack.lines}
    exit, check = (3, "signature") if pack.unchecked else (0, "")
    said = {name: pack.said[name] for name in ("conversation", "entries", "head")}
    return {"exit": exit, "check": check, "line": pack.unchecked} | said | pack.found


def main():
    parser = argparse.ArgumentParser(description="Check a stenolog evidence pack.")
    parser.add_argument("pack", type=argparse.FileType("rb"), help="the file")
    parser.add_argument("--head", help="the head that was kept elsewhere")
    parser.add_argument("--key", help="the public key that must have signed it")
    parser.add_argument("--log-head", help="the head of the log that was kept elsewhere")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    given = parser.parse_args()
    verdict = verify(given.pack, given.head, given.key, given.log_head)
    facts = [f"  {name}: {verdict[name]!r}" for name in [*verdict][5:]]
    is_bound = given.log_head or (given.key and verdict["exit"] == 0)
    facts += ["  names and erasures: the producer's word"] if facts and not is_bound else []
    told = "\n".join([SENTENCES[verdict["exit"]].format(**verdict), *facts])
    try:
        print(json.dumps(verdict) if given.json else told, flush=True)
    except BrokenPipeError:  # the rest that waits to be written goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return verdict["exit"]


if __name__ == "__main__":
    sys.exit(main())
