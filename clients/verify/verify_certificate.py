"""Check what a stranger can of the certificate in an evidence pack, with Python 3.11 alone.

The pack is verified first. Exit code: 0 nothing speaks against it, 1 something does, 2 there is none.
"""

import argparse
import json
import sys
from hashlib import sha256

from verify_evidence import verify

NONE = "the pack has no certificate: its statement is none"


def need(holds, reason):
    if not holds:
        raise ValueError(reason)


def strings(value):
    """Yield all texts in JSON."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(inner)


def certificate_of(rows):
    """Return the certificate, and its part about the conversation of the pack. Raises `LookupError`."""
    try:
        certificate = json.loads(rows[0]["statement"])
        digests = {0: ""} | {row["position"]: row["digest"] for row in rows if "position" in row}
        for part in certificate["parts"] if certificate["certificate"] == 1 else ():
            if all(digests.get(part[end]["position"]) == part[end]["digest"] for end in ("from", "to")):
                return certificate, part
    except (ValueError, TypeError, KeyError):
        pass
    raise LookupError(NONE)


def check(lines, texts=(), **wanted):
    """Return what was checked of a pack's certificate. Raises ValueError if something speaks against it.

    `texts` are those that the certificate has hashes of. `wanted` is as of `verify`.
    """
    verdict = verify(lines, **wanted)
    if verdict["exit"] == 2:
        raise LookupError(NONE)
    need(verdict["exit"] != 1, f"the pack is refused: {verdict['check']}, line {verdict['line']}")
    rows = [json.loads(line) for line in lines]
    certificate, part = certificate_of(rows)
    need(certificate["given"] and not part["shown"] and not part["unproved"], "the certificate was not given")
    hashes = {(one["salt"], one["sha256"]) for one in certificate["never"]["texts"]}
    for text in texts:
        named = any(sha256(bytes.fromhex(salt) + text.encode()).hexdigest() == sha for salt, sha in hashes)
        need(named, "a text is not one that the certificate names")
    never = {one["digest"] for one in certificate["never"]["entries"]}
    secret = {row["position"] for row in rows if row.get("digest") in never and "position" in row}
    secret |= {*part["quoting"]}
    named = {one["position"]: one["sha256"] for one in part["requests"]}
    unknown = check_answers(rows, certificate["agent"], part, named)
    shown = {row["request"]: row for row in rows if "request" in row and row["request"] in named}
    for position, row in shown.items():
        need(
            not secret & {*row["sources"]},
            f"the request of {position} was built from {min(secret & {*row['sources']}, default=0)}",
        )
        said = " ".join(strings(json.loads(row["body"])))
        need(
            not any(text.casefold() in said.casefold() for text in texts),
            f"the request of {position} has the text",
        )
    return {
        "statement": certificate["statement"],
        "checked": sorted(shown),
        "not_in_the_pack": sorted({*named} - {*shown}),
        "withheld_answers": unknown,
        "texts": len(texts),
        "signed": verdict["signed"],
        "limits": certificate["limits"],
    }


def check_answers(rows, agent, part, named):
    """Compare the agent's disclosed answers; return the withheld ones, which may be of any agent."""
    unknown = []
    for row in rows:
        if not part["from"]["position"] < row.get("position", 0) <= part["to"]["position"]:
            continue
        if row["topic"].partition("@")[0] not in ("assistant_message", "llm_error"):
            continue
        position = row["position"]
        if not row.get("payload"):
            unknown += [position] * (position not in named)
            continue
        said = json.loads(row["payload"])
        if agent not in (said["agent"], f"{said['agent']}/{said.get('task', '')}"):
            continue
        receipt = said.get("receipt")
        if receipt is None:
            need(position in part["without_receipt"], f"the answer at {position} is not in the certificate")
        else:
            need(
                named.get(position) == receipt["sha256"],
                f"the request of {position} is not in the certificate",
            )
    return unknown


def main():
    parser = argparse.ArgumentParser(description="Check the certificate in a stenolog evidence pack.")
    parser.add_argument("pack", type=argparse.FileType("rb"), help="the file")
    parser.add_argument(
        "--text", action="append", default=[], help="the text that it has a hash of; repeatable"
    )
    parser.add_argument("--head", help="the head that was kept elsewhere")
    parser.add_argument("--key", help="the public key that must have signed it")
    given = parser.parse_args()
    try:
        found = check(given.pack.readlines(), given.text, head=given.head, key=given.key)
    except LookupError as error:
        print(error)
        return 2
    except (ValueError, TypeError, AttributeError) as error:
        print(f"refused: {error}")
        return 1
    print(f"nothing speaks against it: {found.pop('statement')}")
    for name, value in found.items():
        print(f"  {name.replace('_', ' ')}: {value!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
