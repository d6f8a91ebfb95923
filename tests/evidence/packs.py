"""Random evidence packs, made after the description of the format alone, and random changes to them."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from clients.verify import verify_evidence
from stenolog.adapters.importers.evidence.signing import is_signed
from stenolog.errors import CorruptLogError
from stenolog.projections.evidence.reading import PackReader

SCRIPT = Path(verify_evidence.__file__).with_name("verify.js")
NODE = """
const { verify } = require(process.argv[1]);
const given = require("fs").readFileSync(0);
(async () => {
  for (let at = 0; at < given.length; ) {
    const end = given.indexOf(10, at);
    const { size, ...wanted } = JSON.parse(given.subarray(at, end));
    at = end + 1 + size;
    const pack = new Uint8Array(given.subarray(end + 1, at)), half = size >> 1;
    console.log(JSON.stringify(await verify([pack.subarray(0, half), pack.subarray(half)], wanted)));
  }
})();
"""
BARE = 'Object.defineProperty(globalThis, "crypto", { value: undefined });'
WORDS = (
    "Which test fails?",
    "",
    'a "quoted"\\ line\n',
    "ü€😀",
    "\u2028\u2029\x00\x1f\x7f",
    "\ufeff",
    "x" * 300,
)
KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2)]
PUBLIC = [key.public_key().public_bytes_raw().hex() for key in KEYS]


class Case(NamedTuple):
    """A pack, and the heads and the key that its reader expects."""

    pack: bytes
    head: str | None = None
    key: str | None = None
    log_head: str | None = None


def verdicts(cases: Sequence[Case], *, bare: bool = False) -> list[dict[str, Any]]:
    """Return the verdicts on packs. Raises `AssertionError` if verifiers or the importer disagree.

    Go's was written from the page alone; it is left out if there is no Go. `bare`: node has no cryptography.
    """
    missing = [program for program in ("node", "go") if shutil.which(program) is None]
    assert not (missing and "CI" in os.environ), f"needed to compare the verifiers: {missing}"
    if "node" in missing:
        pytest.skip("no node here, to compare the verifiers")
    verify: Any = verify_evidence.verify
    in_python = [verify(BytesIO(case.pack), *case[1:]) for case in cases]
    others = [["node", "-e", BARE + NODE if bare else NODE, str(SCRIPT)]]
    if not (bare or missing):
        others.append([in_go()])
    for command in others:
        found = _verdicts(command, cases)
        for case, one, other in zip(cases, in_python, found, strict=True):
            assert one == other, (command[0], case)
    for case, one in zip(cases, in_python, strict=True):
        # An import is given no head and no key, and is of what begins as a pack.
        if not bare and one["exit"] != 2 and case.head is case.log_head is None:
            expected = ("", 0) if one["check"] == "key" else (one["check"], one["line"])
            assert _found_by_import(case.pack) == expected, case
    return in_python


def _found_by_import(pack: bytes) -> tuple[str, int]:
    """Return the check that fails when a pack is imported, and its line."""
    reader = PackReader(is_signed)
    try:
        for line in BytesIO(pack):
            reader.take(line)
        reader.end()
    except CorruptLogError as error:
        _, number, name, _ = str(error).split(": ", 3)
        return name, int(number.removeprefix("line "))
    return "", 0


def _verdicts(command: Sequence[str], cases: Sequence[Case]) -> list[dict[str, Any]]:
    frames = b"".join(
        json.dumps({"size": len(pack), **_given(wanted)}).encode() + b"\n" + pack for pack, *wanted in cases
    )
    done = subprocess.run(command, input=frames, capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _given(wanted: Iterable[str | None]) -> dict[str, str]:
    named = zip(("head", "key", "log_head"), wanted, strict=True)
    return {name: value for name, value in named if value is not None}


@cache
def in_go() -> str:
    """Return the program of the verifier in Go, built once a process."""
    program = Path(mkdtemp()) / "verify"
    atexit.register(shutil.rmtree, program.parent)
    source = Path(__file__).with_name("verify.go")
    subprocess.run(["go", "build", "-o", str(program), str(source)], check=True)
    return str(program)


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def hashed(*parts: str | bytes | list[Any]) -> str:
    """Return the sha256 of hexadecimal digits, bytes, and values of which each is a line."""
    sum = sha256()
    for part in parts:
        lines = "".join(f"{value}\n" for value in part).encode() if isinstance(part, list) else part
        sum.update(bytes.fromhex(lines) if isinstance(lines, str) else lines)
    return sum.hexdigest()


def sealed(lines: Iterable[str], signers: Sequence[int] = (), *, anchored: bool = False) -> bytes:
    """Return lines as a pack: signed, anchored and ended."""
    told = "".join(f"{line}\n" for line in lines)
    of = hashed(told.encode())
    for signer in signers:
        by = f"signer {signer} ü"
        signature = KEYS[signer].sign(f"stenolog evidence 1\n{by}\n{of}".encode()).hex()
        told += compact({"signature": signature, "key": PUBLIC[signer], "by": by, "of": of}) + "\n"
    if anchored:
        answer = b64encode(b"\x30\x82" + bytes.fromhex(of) + b"\xff").decode()
        told += compact({"anchor": "rfc3161", "of": of, "name": "https://a.example", "answer": answer}) + "\n"
        told += compact({"anchor": "command", "of": of, "name": "publish", "answer": ""}) + "\n"
    return ended(told)


def ended(told: str) -> bytes:
    """Return lines with the last one after them."""
    text = told.encode()
    return text + compact({"end": text.count(b"\n"), "sha256": hashed(text)}).encode() + b"\n"


def random_pack(random: Random, signers: Sequence[int] | None = None, entries: int = 0) -> bytes:
    """Return a pack with forks, erasures, withheld entries, requests, blobs, signatures and anchors."""
    lines = _Maker(random, entries or random.randint(1, 9)).lines()
    signers = random.choice(((), (0,), (0, 1))) if signers is None else signers
    return sealed(lines, signers, anchored=random.random() < 0.3)


class _Maker:
    def __init__(self, random: Random, entries: int) -> None:
        self.random = random
        self.size = entries
        firsts = sorted(random.randint(2, self.size) for _ in range(random.randint(0, 2)) if self.size > 1)
        self.streams = [[3 * number + 1, first] for number, first in enumerate([1, *firsts])]
        self.whole = self.streams[-1][1] <= self.size and random.random() < 0.5
        self.erased = {at for at in range(1, self.size + 1) if random.random() < 0.15}
        self.left = {at: random.choice(("", '{"joins":["coder"]}')) for at in self.erased}
        self.withheld = {at for at in range(1, self.size + 1) if random.random() < 0.2} - self.erased
        self.conversation = random.choice(WORDS) or "demo"
        self.digests = [""]
        self.at = [random.randrange(10**15) for _ in range(self.size + 1)]

    def salt(self) -> str:
        return self.random.randbytes(16).hex()

    def owner(self, position: int) -> int:
        return [stream for stream, first in self.streams if first <= position][-1]

    def lines(self) -> list[str]:
        records, chained, number = self.records()
        entries = self.entries()
        heads = [[90, 4, hashed(b"another")]]
        log_head, end = "", []
        if self.whole:
            heads.insert(0, [self.owner(self.size), self.size, self.digests[-1]])
            rows: list[Any] = [
                part for stream, position, digest in heads for part in ([stream, position], digest)
            ]
            log_head = f"{number}-77-{hashed([number, 77], chained, *rows)}"
            end = [compact({"heads": heads})]
        statement = {
            "evidence": 1, "conversation": self.conversation, "entries": self.size, "head": self.digests[-1],
            "streams": self.streams, "from": self.at[1], "to": self.at[-1], "time": 10**15,
            "program": "a maker", "statement": self.random.choice(WORDS), "log_head": log_head,
        }  # fmt: skip
        return [compact(statement), *records, *entries, *end]

    def records(self) -> tuple[list[str], str, int]:
        told: list[tuple[int, str, int, int, str]] = [(1, "begun", 0, 0, "an ancestor")]
        for (parent, _), (stream, first) in pairwise(self.streams):
            told.append((stream, "forked", first - 1, parent, "fork"))
        told.append((90, "begun", 0, 0, "another's name"))
        told.append((self.streams[-1][0], "renamed", 0, 0, self.conversation))
        told += [(self.owner(at), "erased", at, 0, _left(self.left[at])) for at in self.erased]
        lines, chained = [], ""
        number = 0 if self.whole else self.random.randint(0, 3)
        for stream, what, value, parent, name in told:
            number += 1
            salt = self.salt() if name else ""
            content = hashed(salt, name.encode())
            previous = chained
            if number > 1 and not chained:
                previous = hashed(b"unknown")
            elif not self.whole and chained and self.random.random() < 0.3:
                number, previous = number + 3, hashed(b"unknown")
            chained = hashed(previous, [number, stream, what, value, parent], content)
            is_hidden = what != "erased" and stream != self.streams[-1][0] and self.random.random() < 0.7
            kept = {"content": content} if is_hidden else {"salt": salt, "name": name}
            line = {"record": number, "stream": stream, "what": what, "value": value, "parent": parent}
            lines.append(compact({**line, **kept, "previous": previous, "digest": chained}))
        return lines, chained, number

    def entries(self) -> list[str]:
        lines, requests, shown = [], [], []
        for position in range(1, self.size + 1):
            random, salt = self.random, self.salt()
            body, sent = random.choice(WORDS), random.choice(("", "POST this", "ü"))
            event: dict[str, Any] = {"text": random.choice(WORDS)}
            is_answer = random.random() < 0.4
            if is_answer:
                event["receipt"] = {"view": position - 1, "sha256": hashed(body.encode())}
                if sent:
                    event["receipt"]["sent"] = hashed(sent.encode())
            blob = position.to_bytes(random.choice((2, 40))) if random.random() < 0.3 else None
            if blob is not None:
                event["blob"] = hashed(blob)
            payload = self.left.get(position) if position in self.erased else compact(event)
            payload = payload or ""
            size = len(payload.encode()) if position not in self.erased else random.randint(0, 99)
            content = hashed(salt, payload.encode()) if position not in self.erased else hashed(salt, b"gone")
            header = [position, f"id{position}", self.at[position], "user_message@1", size]
            self.digests.append(hashed(self.digests[-1], header, content))
            line = dict(zip(("position", "id", "at", "topic"), header, strict=False))
            if position in self.erased:
                line |= {"size": size, "erased": content, "payload": payload}
            elif position in self.withheld:
                line |= {"size": size, "withheld": content}
            else:
                shown.append(position)
                line |= {"salt": salt, "payload": payload}
                if blob is not None:
                    lines.append(compact({"blob": hashed(blob), "base64": b64encode(blob).decode()}))
                if is_answer and random.random() < 0.8:
                    sources = [at for at in shown[:-1] if random.random() < 0.7]
                    kept = random.choice(("", sent))
                    requests.append(
                        compact({"request": position, "sources": sources, "body": body, "sent": kept})
                    )
            lines.append(compact({**line, "digest": self.digests[-1]}))
        return lines + requests


def _left(effects: str) -> str:
    return hashed(effects.encode()) if effects else ""


def changed(random: Random, pack: bytes) -> bytes:
    """Return a pack after one change that its last line does not know of."""
    lines = _lines(pack)
    at, line, other = random.randrange(len(pack)), random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(8):
        case 0:
            made = pack[:at] + bytes([pack[at] ^ (1 << random.randrange(8))]) + pack[at + 1 :]
        case 1:
            made = pack[:at] + bytes([random.randrange(256)]) + pack[at + 1 :]
        case 2:
            made = pack[:at] + bytes([random.choice(b' 0-\n\r\\"\xff')]) + pack[at:]
        case 3:
            made = pack[:at] + pack[at + random.choice((1, 2, 9)) :]
        case 4:
            made = pack[:at]
        case 5:
            made = b"".join(lines[:line] + lines[line + 1 :])
        case 6:
            made = b"".join([*lines[:line], lines[other], *lines[line:]])
        case _:
            lines[line], lines[other] = lines[other], lines[line]
            made = b"".join(lines)
    return made if made != pack else changed(random, pack)


def forged(random: Random, pack: bytes) -> bytes:
    """Return a pack after a value, a line or the order was changed, with a last line that fits it again."""
    lines = [json.loads(line) for line in _lines(pack)[:-1]]
    number = random.randrange(len(lines))
    match random.randrange(6):
        case 0:
            del lines[number]
        case 1:
            other = random.randrange(len(lines))
            lines[number], lines[other] = lines[other], lines[number]
        case 2:
            lines.insert(random.randrange(len(lines) + 1), lines[number])
        case _:
            name = random.choice([*lines[number]])
            lines[number][name] = _other(random, lines[number][name])
    made = ended("".join(f"{compact(line)}\n" for line in lines))
    return made if made != pack else forged(random, pack)


def _lines(pack: bytes) -> list[bytes]:
    return [*BytesIO(pack)]


def _other(random: Random, value: Any) -> Any:
    match value:
        case int():
            return random.choice((value + 1, max(value - 1, 0), 0, -1, 2**53, float(value), True, str(value)))
        case str() if value and random.random() < 0.8:
            at = random.randrange(len(value))
            return value[:at] + random.choice("0aF \u2028=") + value[at + 1 :]
        case str():
            return random.choice(("x", "", hashed(b""), "ab" * 16, "QUI=", "QUJ=", 0, None))
        case [*items] if items:
            at = random.randrange(len(items))
            return random.choice(
                (
                    [*items[:at], *items[at + 1 :]],
                    [*items, items[at]],
                    [*items[:at], _other(random, items[at]), *items[at + 1 :]],
                )
            )
        case _:
            return [1]


BODY = '{"messages":[]}'


SALT = "ab" * 16
BEGUN: tuple[Any, ...] = (1, "begun", 0, 0, SALT, "demo")


def small(
    text: str = "é\u2028/\x7f", *, signers: Sequence[int] = (0,), told: Any = (BEGUN,), newest: Any = 1
) -> bytes:
    """Return a pack of one entry that has all kinds of lines but blobs; `told` are its records."""
    salt, receipt = SALT, {"sha256": hashed(BODY.encode()), "sent": hashed(b"POST")}
    payload = compact({"text": text, "receipt": receipt})
    header = [1, "e1", 7, "user_message@1", len(payload.encode())]
    digest = hashed("", header, hashed(salt, payload.encode()))
    records: list[dict[str, Any]] = []
    chained = ""
    for number, (*place, hidden, name) in enumerate(told, 1):
        before, chained = chained, hashed(chained, [number, *place], hashed(hidden, name.encode()))
        fields = zip(("stream", "what", "value", "parent"), place, strict=True)
        ends = {"salt": hidden, "name": name, "previous": before, "digest": chained}
        records.append({"record": number, **dict(fields), **ends})
    log_head = f"{len(told)}-{newest}-{hashed([len(told), newest], chained, [1, 1], digest)}"
    lines = [
        {"evidence": 1, "conversation": told[-1][-1], "entries": 1, "head": digest,
         "streams": [[1, 1]], "from": 7, "to": 7, "time": 8, "program": "p", "statement": "s",
         "log_head": log_head},
        *records,
        {"position": 1, "id": "e1", "at": 7, "topic": "user_message@1", "salt": salt, "payload": payload,
         "digest": digest},
        {"request": 1, "sources": [], "body": BODY, "sent": "POST"},
        {"heads": [[1, 1, digest]]},
    ]  # fmt: skip
    return sealed([compact(line) for line in lines], signers, anchored=True)
