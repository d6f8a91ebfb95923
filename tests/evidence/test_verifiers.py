"""The verifiers of evidence packs in three languages: they give the same verdicts on good packs and bad."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from random import Random

import pytest

from clients.verify import verify_evidence
from tests.random_cases import seeds

from .given import pack_of, random_log
from .packs import (
    BEGUN,
    PUBLIC,
    SALT,
    SCRIPT,
    Case,
    changed,
    ended,
    forged,
    random_pack,
    small,
    verdicts,
)

CHANGES = 100
"""Changes to each pack."""
BATCH = 50
"""Packs that one process of node is given, with their changes."""


def batches(seeds: range) -> list[range]:
    return [seeds[at : at + BATCH] for at in range(0, len(seeds), BATCH)]


@seeds(10, slow=50, nightly=1_000)
def test_all_verify_packs_and_refuse_every_change_for_the_same_reason(seeds: range) -> None:
    for batch in batches(seeds):
        packs = [random_pack(Random(seed)) for seed in batch]
        whole = verdicts([Case(pack) for pack in packs])
        assert [found["exit"] for found in whole] == [0] * len(packs)
        random = Random(batch.start)
        broken = [Case(changed(random, pack)) for pack in packs for _ in range(CHANGES)]
        for case, found in zip(broken, verdicts(broken), strict=True):
            assert found["exit"] in (1, 2), case


@seeds(10, slow=50, nightly=1_000)
def test_nothing_that_a_key_has_signed_can_be_changed_even_with_another_last_line(seeds: range) -> None:
    for batch in batches(seeds):
        signed = {seed: random_pack(Random(seed), (0,)) for seed in batch}
        random = Random(batch.start)
        cases = [
            (pack, Case(forged(random, pack), key=PUBLIC[0]))
            for pack in signed.values()
            for _ in range(CHANGES)
        ]
        found = verdicts([case for _, case in cases])
        for (pack, case), verdict in zip(cases, found, strict=True):
            before = pack.partition(b'{"signature"')[0]
            assert verdict["exit"] in (1, 2) or case.pack.startswith(before), case


HEAD = json.loads(small().partition(b"\n")[0])["head"]
LOG_HEAD = json.loads(small().partition(b"\n")[0])["log_head"]
ANSWER = json.loads(small().split(b"\n")[6])["answer"]
OF = json.loads(small().split(b"\n")[6])["of"]
ASKEW = b64encode(bytes.fromhex(f"0{OF}0")).decode()
"""An answer with the hexadecimal digits of the hash, but not its bytes."""
RESIGNED = small(signers=(1,))
FORGERIES = [
    ('"evidence":1', '"evidence":2', 2, "pack", 1),
    ('{"evidence"', '\ufeff{"evidence"', 2, "pack", 1),
    ('{"evidence":1,', '{ "evidence":1,', 2, "pack", 1),
    ('"time":8', '"time":8.0', 1, "form", 1),
    ('"time":8', '"time":8e0', 1, "form", 1),
    ('"time":8', '"time":-0', 1, "form", 1),
    ('"time":8', '"time":NaN', 1, "form", 1),
    ('"time":8', '"time":true', 1, "form", 1),
    ('"time":8', '"time":9000000000000000', 1, "form", 1),
    ('"time":8', '"time":' + "1" * 5_000, 1, "form", 1),
    ('"time":8', '"time":' + "[" * 5_000, 1, "form", 1),
    ('"time":8', '"time":8,"time":8', 1, "form", 1),
    ('"time":8,"program":"p"', '"program":"p","time":8', 1, "form", 1),
    ('"statement":"s"', '"statement":"\\u0073"', 1, "form", 1),
    ('"statement":"s"', '"statement":"\\ud800"', 1, "form", 1),
    ('"statement":"s"', '"statement":"\\u2028"', 1, "form", 1),
    ('"statement":"s"', '"statement":"\\/"', 1, "form", 1),
    ('"statement":"s"', '"statement":"\\u001F"', 1, "form", 1),
    ('"statement":"s"', '"statement":"\\u001f\u2028\U0001f600\x7f"', 1, "content", 6),
    ('"statement":"s"', '"statement":null', 1, "form", 1),
    ('"streams":[[1,1]]', '"streams":[[1, 1]]', 1, "form", 1),
    ('"streams":[[1,1]]', '"streams":[]', 1, "form", 1),
    ('"streams":[[1,1]]', '"streams":[[1,2]]', 1, "lineage", 3),
    ('"streams":[[1,1]]', '"streams":[[2,1]]', 1, "lineage", 3),
    ('"conversation":"demo"', '"conversation":"another"', 1, "lineage", 3),
    ('"entries":1', '"entries":2', 1, "order", 4),
    ('"entries":1', '"entries":0', 1, "order", 1),
    ('"from":7', '"from":6', 1, "head", 4),
    ('"to":7', '"to":9', 1, "head", 4),
    ('"log_head":"1-1-', '"log_head":"1-2-', 1, "log_head", 5),
    ('"log_head":"1-1-', '"log_head":"', 1, "log_head", 5),
    ('"}\n{"record"', '-"}\n{"record"', 1, "log_head", 5),
    ('"name":"demo"', '"name":"dem0"', 1, "record", 2),
    ('"salt":"ab', '"salt":"AB', 1, "form", 2),
    ('"id":"e1"', '"id":"e1\\n7"', 1, "form", 3),
    ('"topic":"user', '"topic":"tool', 1, "entry", 3),
    ("é", "e", 1, "entry", 3),
    ('"body":"{', '"body":"{ ', 1, "request", 4),
    ('"sent":"POST"', '"sent":"GET"', 1, "request", 4),
    ('"sent":"POST"', '"sent":""', 1, "content", 6),
    ('"sources":[]', '"sources":[1]', 1, "request", 4),
    ('"by":"signer 0', '"by":"signer 1', 1, "signature", 6),
    (PUBLIC[0], PUBLIC[1], 1, "signature", 6),
    ('"anchor":"rfc3161"', '"anchor":"other"', 0, "", 0),
    (ANSWER, ANSWER[:20] + ("B" if ANSWER[20] == "A" else "A") + ANSWER[21:], 1, "anchor", 7),
    (ANSWER, ASKEW, 1, "anchor", 7),
    ('"id":"e1"', '"id":"' + '\\"' * 3_000_000 + '"', 1, "entry", 3),
    ('"sources":[]', '"sources":[0' + ",0" * 1_000_000 + "]", 1, "request", 4),
    ('"heads":[', '"heads":[' + f'[0,0,"{HEAD}"],' * 150_000, 1, "log_head", 5),
    ('"answer":""', '"answer":"QUJ="', 1, "form", 8),
    ('"answer":""', '"answer":"QUI"', 1, "form", 8),
]  # fmt: skip
"""What is replaced in a pack, by what, and the verdict on it: exit code, check, line."""


def test_what_is_forged_is_refused_by_the_check_that_covers_it() -> None:
    pack = small().decode()
    middle = pack[: pack.rindex('{"end"')]
    cases = [Case(ended(middle.replace(old, new, 1))) for old, new, *_ in FORGERIES]
    broken = [
        (Case(b""), 2, "pack", 1),
        (Case(middle.encode()), 1, "end", 9),
        (Case(ended(middle + "\n")), 1, "form", 9),
        (Case(pack[:-1].encode()), 1, "form", 9),
        (Case(pack.encode() + b"\n"), 1, "end", 10),
        (Case(pack.replace("\n", "\r\n").encode()), 1, "form", 1),
        (Case(pack.replace("\u2028", "").encode("latin-1")), 1, "form", 3),
        (Case(pack.encode(), head="00" * 32), 1, "head", 4),
        (Case(pack.encode(), key=PUBLIC[1]), 1, "key", 9),
        (Case(RESIGNED, key=PUBLIC[0]), 1, "key", 9),
        (Case(pack.encode(), head=HEAD, key=PUBLIC[0]), 0, "", 0),
        (Case(pack.encode(), HEAD.upper(), PUBLIC[0].upper(), LOG_HEAD.upper()), 0, "", 0),
        (Case(pack.encode(), log_head=""), 1, "log_head", 9),
    ]
    found = verdicts([*cases, *(case for case, *_ in broken)])

    expected = [tuple(verdict) for _, _, *verdict in FORGERIES] + [tuple(verdict) for _, *verdict in broken]
    assert [(each["exit"], each["check"], each["line"]) for each in found] == expected


@pytest.mark.parametrize(
    ("pack", "verdict"),
    [
        (small(told=[(1, "forked", 0, 0, SALT, "demo")]), ("lineage", 3)),
        (small(told=[(1, "begun", 0, 5, SALT, "demo")]), ("lineage", 3)),
        (small(told=[(1, "begun", 5, 0, SALT, "demo")]), ("lineage", 3)),
        (small(told=[BEGUN, (1, "forked", 3, 7, SALT, "demo")]), ("lineage", 4)),
        (small(told=[(1, "forked", 3, 7, SALT, "demo"), BEGUN]), ("", 0)),
        (small(told=[(1, "begun", 0, 0, "", "demo")]), ("record", 2)),
        (small(told=[(1, "begun", 0, 0, SALT, "")]), ("record", 2)),
        *((small(newest=newest), ("log_head", 5)) for newest in ("abc", "", "007", 9 * 10**15, "\u0661")),
        (small(newest=9 * 10**15 - 1), ("", 0)),
    ],
)  # fmt: skip
def test_a_history_has_one_form_and_one_meaning(pack: bytes, verdict: tuple[str, int]) -> None:
    (found,) = verdicts([Case(pack)])
    assert (found["check"], found["line"]) == verdict


def test_a_name_is_bound_by_a_key_or_by_the_head_of_the_log_but_not_by_the_head() -> None:
    forged = small(told=[(1, "begun", 0, 0, SALT, "another")], signers=[])
    wanted = [{"head": HEAD}, {"log_head": LOG_HEAD}, {"key": PUBLIC[0]}]
    found = verdicts([Case(forged, **given) for given in wanted])

    assert [each["check"] for each in found] == ["", "log_head", "key"]


def test_a_signature_that_cannot_be_checked_is_said_and_nothing_more_is_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verify_evidence, "PublicKey", None)
    found = verdicts([Case(small()), Case(small(), key=PUBLIC[0]), Case(small(), key=PUBLIC[1])], bare=True)

    assert [(each["exit"], each["check"], each["line"]) for each in found] == [
        (3, "signature", 6), (3, "signature", 6), (1, "key", 9)
    ]  # fmt: skip


@pytest.mark.parametrize("command", [[sys.executable, verify_evidence.__file__], ["node", str(SCRIPT)]])
def test_a_program_is_told_by_the_exit_code(command: list[str], tmp_path: Path) -> None:
    pack, other = tmp_path / "demo.evidence", tmp_path / "other"
    pack.write_bytes(small())
    other.write_text("{}")

    def run(*arguments: object) -> tuple[int, str]:
        done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True)
        return done.returncode, done.stdout

    code, verdict = run(pack, "--head", HEAD, "--key", PUBLIC[0], "--json")
    assert (code, json.loads(verdict)["requests"]) == (0, [1])
    given: list[list[object]] = [[pack], [pack, "--head", ""], [pack, "--key", ""]]
    assert [run(*arguments)[0] for arguments in given] == [0, 1, 1]
    unbound = [[pack], [pack, "--head", HEAD], [pack, "--key", PUBLIC[0]], [pack, "--log-head", LOG_HEAD]]
    assert ["the producer's word" in run(*arguments)[1] for arguments in unbound] == [
        True,
        True,
        False,
        False,
    ]
    given = [[other], [tmp_path / "none"], [], [pack, "--head"], [pack, "--no"]]
    assert [run(*arguments)[0] for arguments in given] == [2, 2, 2, 2, 2]


@pytest.mark.parametrize("command", [[sys.executable, verify_evidence.__file__], ["node", str(SCRIPT)]])
def test_a_reader_that_has_enough_is_no_error(command: list[str], tmp_path: Path) -> None:
    pack = tmp_path / "demo.evidence"
    pack.write_bytes(small())
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*command, str(pack)], stdout=write, stderr=subprocess.PIPE)
    os.close(write)

    assert (done.returncode, done.stderr) == (0, b"")


@seeds(1, slow=10, nightly=209)
def test_packs_of_real_logs_are_verified_and_their_changes_refused_by_all(seeds: range) -> None:
    for seed in seeds:
        random, packs = Random(seed), []
        for talk in random_log(seed):
            withheld = [at for at in range(1, talk.position + 1) if random.random() < 0.15]
            whole = random.random() < 0.5
            packs.append(pack_of(talk, requests="all", withheld=withheld, whole_history=whole))
        broken = [changed(random, pack) for pack in packs for _ in range(CHANGES)]
        found = verdicts([Case(pack) for pack in [*packs, *broken]])
        assert [each["exit"] for each in found[: len(packs)]] == [0] * len(packs), seed
        assert {each["exit"] for each in found[len(packs) :]} <= {1, 2}, seed
