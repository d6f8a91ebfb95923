"""Check a stenolog evidence pack with the standard library. docs/reference/evidence.md has the format.

Exit code: 0 verified, 1 refused, 2 not a pack, 3 verified but for signatures (`cryptography` is missing).
"""

import argparse
import json
import re
import sys
from base64 import b64decode, b64encode
from hashlib import sha256
from itertools import pairwise

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey as PublicKey
except ImportError:
    PublicKey = None

FIELDS = """0 evidence conversation entries head streams from to time program statement log_head
1 record stream what value parent salt name previous digest
1 record stream what value parent content previous digest
2 blob base64
2 position id at topic salt payload digest
2 position id at topic size withheld digest
2 position id at topic size erased payload digest
3 request sources body sent
4 heads
5 signature key by of
6 anchor of name answer
7 end sha256"""  # each kind of line: its part of the pack, and its fields in order
PARTS = {tuple(names): int(part) for part, *names in map(str.split, FIELDS.splitlines())}
NUMBER = "(0|[1-9][0-9]{0,14}|[1-8][0-9]{15})"
PATTERNS = {  # what a field holds as JSON, if not any text
    "evidence entries from to time record stream value parent position at size request end": NUMBER,
    "head digest content blob withheld erased key of sha256": '"[0-9a-f]{64}"',
    "previous": '"([0-9a-f]{64})?"',
    "salt": '"([0-9a-f]{32})?"',
    "signature": '"[0-9a-f]{128}"',
    "id topic what by": r'"[^\\]*(\\[^n][^\\]*)*"',  # no line feed
    "streams": rf"\[\[{NUMBER},{NUMBER}\](,\[{NUMBER},{NUMBER}\])*\]",
    "sources": rf"\[({NUMBER}(,{NUMBER})*)?\]",
    "heads": rf'\[\[{NUMBER},{NUMBER},"[0-9a-f]{{64}}"\](,\[{NUMBER},{NUMBER},"[0-9a-f]{{64}}"\])*\]',
}
PATTERNS = {name: pattern for names, pattern in PATTERNS.items() for name in names.split()}
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
        for name, value in line.items():
            need(re.fullmatch(PATTERNS.get(name, '(?s:".*")'), compact(value)), "form")
            if name in ("base64", "answer"):
                line[name] = b64decode(value, validate=True)
                need(b64encode(line[name]).decode() == value, "form")
        return line
    except (ValueError, RecursionError):
        raise CheckError("form") from None


def hashed(*parts):
    """Return the sha256 of parts: bytes, hexadecimal digits, or a list of values that line feeds end."""
    lines = ["".join(f"{one}\n" for one in part).encode() if type(part) is list else part for part in parts]
    return sha256(b"".join(bytes.fromhex(part) if type(part) is str else part for part in lines)).hexdigest()


class Pack:
    """A pack that is read line by line."""

    def __init__(self, head, key):
        self.wanted_head, self.wanted_key, self.lines, self.part, self.all = head, key, 0, -1, sha256()
        self.records, self.record, self.chained, self.names, self.forks, self.left = 0, 0, "", {}, {}, {}
        self.position, self.digest, self.times, self.unnamed, self.receipts = 0, "", [], [], {}
        self.withheld, self.erased, self.blobs, self.requests, self.signed = [], [], set(), [], []
        self.log_head, self.unchecked = "", 0

    def read(self, raw):
        """Check the next line, by the method that its first field names. Raises `CheckError`."""
        self.lines += 1
        need(self.part < 7, "end")
        need(raw.endswith(b"\n"), "form")
        line, before = parsed(raw), self.part
        self.said, self.part = line if before < 0 else self.said, PARTS[tuple(line)]
        need(self.part > before or self.part == before not in (0, 4), "order")
        need((self.position == self.said["entries"]) == (self.part > 2), "order")
        if before < 2 <= self.part:
            self.check_lineage()
        if before < 3 <= self.part:
            need([self.times[0], self.times[-1]] == [self.said["from"], self.said["to"]], "head")
            need(self.said["head"] == self.digest == (self.wanted_head or self.digest), "head")
        if before < 5 <= self.part:
            self.of = self.all.hexdigest()
        need(self.part not in (5, 6) or line["of"] == self.of, "content")
        if self.part:
            getattr(self, f"check_{next(iter(line))}")(**line)
        self.all.update(raw)

    def check_record(
        self, record, stream, what, value, parent, previous, digest, salt="", name=None, content=""
    ):
        after, content = self.chained, content if name is None else hashed(salt, name.encode())
        self.chained = hashed(previous, [record, stream, what, value, parent], content)
        need(previous == after if record == self.record + 1 else record > self.record and previous, "record")
        need(self.chained == digest, "record")
        self.record, self.records = record, self.records + 1
        if what in ("begun", "forked", "renamed"):
            self.names[stream] = name
        if what in ("begun", "forked"):
            self.forks[stream] = (parent, value + 1) if what == "forked" else (0, 1)
        if what == "erased":
            self.left[stream, value] = name

    def check_lineage(self):
        parent = 0
        for (stream, first), (_, following) in pairwise([*self.said["streams"], (0, 2**53)]):
            source, start = self.forks.get(stream, (0, 0))
            need(parent == source and first == min(start, following), "lineage")
            parent = stream
        need(self.names[parent] == self.said["conversation"], "lineage")

    def check_blob(self, blob, base64):
        need(hashed(base64) == blob and blob not in self.blobs, "blob")
        self.blobs.add(blob)
        self.unnamed.append(blob)

    def check_position(self, position, id, at, topic, digest, payload="", size=0, **rest):
        state, is_shown = payload.encode(), "salt" in rest
        content = hashed(rest["salt"], state) if is_shown else rest.get("withheld") or rest.get("erased")
        self.digest = hashed(
            self.digest, [position, id, at, topic, len(state) if is_shown else size], content
        )
        need(position == self.position + 1 and digest == self.digest, "entry")
        self.position = position
        self.times.append(at)
        if "erased" in rest:
            left = self.left.get((self.stream(), position))
            need(left == (payload and hashed(state)), "erasure")
        need(all(is_shown and blob in payload for blob in self.unnamed), "blob")
        self.unnamed = []
        if not is_shown:
            (self.withheld if "withheld" in rest else self.erased).append(position)
        elif '"receipt"' in payload:
            self.receipts[position] = payload

    def stream(self):
        return [stream for stream, first in self.said["streams"] if first <= self.position][-1]

    def check_request(self, request, sources, body, sent):
        try:
            receipt = json.loads(self.receipts[request], parse_int=float, parse_constant=int)["receipt"]
            digests = receipt["sha256"], receipt.get("sent", "") if sent else ""
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise CheckError("request") from None
        need((hashed(body.encode()), sent and hashed(sent.encode())) == digests, "request")
        need(all(one < two for one, two in pairwise([0, *sources, request])), "request")
        need(request > max(self.requests, default=0) and not {*sources} & {*self.withheld}, "request")
        self.requests.append(request)

    def check_heads(self, heads):
        number, newest, total = [*self.said["log_head"].split("-"), "", ""][:3]
        need(number == str(self.record) == str(self.records), "log_head")
        need(all(one < two for (one, *_), (two, *_) in pairwise(heads)), "log_head")
        need([self.stream(), self.position, self.digest] in heads, "log_head")
        rows = [part for stream, position, digest in heads for part in ([stream, position], digest)]
        need(hashed([number, newest], self.chained, *rows) == total, "log_head")
        self.log_head = self.said["log_head"]

    def check_signature(self, signature, key, by, of):
        self.signed.append([key, by])
        if PublicKey is None:
            self.unchecked = self.unchecked or self.lines
            return
        try:
            text = f"stenolog evidence 1\n{by}\n{of}".encode()
            PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), text)
        except (InvalidSignature, ValueError):
            raise CheckError("signature") from None

    def check_anchor(self, anchor, of, name, answer):
        need(anchor != "rfc3161" or bytes.fromhex(of) in answer, "anchor")

    def check_end(self, end, sha256):
        need(end == self.lines - 1 and sha256 == self.all.hexdigest(), "end")
        need(self.wanted_key in ("", *(key for key, _ in self.signed)), "key")


def verify(lines, head="", key=""):
    """Return the verdict on a pack, given as lines of bytes: exit, check, line, and what it shows."""
    pack = Pack(head, key)
    try:
        for raw in lines:
            if not pack.lines and not raw.startswith(b'{"evidence":1,'):
                break
            pack.read(raw)
        if not pack.lines:
            return {"exit": 2, "check": "pack", "line": 1}
        pack.lines += 1
        need(pack.part == 7, "end")
    except CheckError as refused:
        return {"exit": 1, "check": str(refused), "line": pack.lines}
    found = (
        {"exit": 3, "check": "signature", "line": pack.unchecked}
        if pack.unchecked
        else {"exit": 0, "check": "", "line": 0}
    )
    found |= {name: pack.said[name] for name in ("conversation", "entries", "head")}
    return found | {
        name: getattr(pack, name) for name in ("withheld", "erased", "requests", "signed", "log_head")
    }


def main():
    parser = argparse.ArgumentParser(description="Check a stenolog evidence pack.")
    parser.add_argument("pack", help="the file")
    parser.add_argument("--head", default="", help="the head that was kept elsewhere")
    parser.add_argument("--key", default="", help="the public key that must have signed it")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    given = parser.parse_args()
    try:
        with open(given.pack, "rb") as lines:
            verdict = verify(lines, given.head, given.key)
    except OSError as error:
        parser.error(str(error))
    for name, value in verdict.items():
        given.json or print(f"{name}: {value}")
    given.json and print(json.dumps(verdict))
    return verdict["exit"]


if __name__ == "__main__":
    sys.exit(main())
