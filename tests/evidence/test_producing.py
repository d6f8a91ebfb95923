"""Evidence packs of real logs: they verify, they come back, and what is withheld is in none of them."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO, StringIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import stenolog
from clients.verify import verify_evidence
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    Event,
    LlmError,
    Log,
    ModeSwitch,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.errors import (
    CallerError,
    ConversationExistsError,
    CorruptLogError,
    MissingExtraError,
    OperationalError,
    StenologError,
)
from stenolog.importers import (
    PackContents,
    Report,
    export_jsonl,
    import_file,
    read_signer,
    write_pack,
)
from stenolog.maintenance import verify
from stenolog.parts import ImagePart, TextPart
from stenolog.projections.evidence.reading import PackReader
from stenolog.requests import proofs
from tests.random_cases import seeds
from tests.recording.given import Tap, anthropic, assistant, call, result, said, user
from tests.requests.histories import BLOBS, history

from .packs import changed, forged, random_pack


def check(pack: bytes, key: str = "") -> dict[str, Any]:
    """Return the verdict of the verifier."""
    verify_pack: Any = verify_evidence.verify
    found: dict[str, Any] = verify_pack(BytesIO(pack), "", key)
    return found


def pack_of(conversation: Conversation, **contents: Any) -> bytes:
    stream = StringIO()
    write_pack(conversation, stream, PackContents(**contents))
    return stream.getvalue().encode()


def brought(log: Log, content: bytes, name: str | None = None) -> Report:
    """Import a file with this content."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(content)
        return import_file(log, path, name=name)


def with_receipt(conversation: Conversation, event: Event) -> Event:
    """Return an answer with the receipt of the request that would be sent now."""
    if isinstance(event, AssistantMessage | LlmError) and event.receipt is None and len(conversation):
        with suppress(StenologError):
            request = conversation.request(event.agent, task=event.task)
            sent = sha256(request.bytes).hexdigest()
            return replace(event, receipt=replace(request.receipt, sent=sent, transport={"method": "POST"}))
    return event


def random_log(seed: int) -> Iterator[Conversation]:
    """Yield the conversations of a log with forks, erasures, renames and imports, and a recorded one."""
    random, log = Random(seed), stenolog.open(":memory:")
    log.blobs.put_all(BLOBS.values())
    names = ["talk"]
    for entry in history(seed, longest=20):
        talk = log[random.choice(names)]
        with suppress(StenologError):
            talk.append(with_receipt(talk, entry.event), time=entry.time)
        with suppress(StenologError):
            match random.randrange(8):
                case 0:
                    names.append(talk.fork(random.randint(0, talk.position)).name)
                case 1:
                    talk.erase(random.randint(1, max(1, talk.position)), by="Ada", reason="a password")
                case 2:
                    text = StringIO()
                    export_jsonl(talk, text)
                    brought(log, text.getvalue().encode(), name=f"{talk.name} again")
                    names.append(f"{talk.name} again")
                case _:
                    talk.rename(f"{talk.name}!")
                    names[names.index(talk.name[:-1])] = talk.name
    tap = Tap(log)
    first = anthropic(user(f"Which test fails in {seed}?"))
    tap.send(first, said("I look.", call("t1", cmd="ls")))
    asked = [*first["messages"], assistant("I look.", call("t1", cmd="ls")), user(result("t1"))]
    tap.send(anthropic(*asked), said("Three."))
    yield from (log[name] for name in log.names(archived=True) if log[name].position)


@seeds(12, slow=60, nightly=600)
def test_each_pack_verifies_comes_back_with_its_digests_and_is_made_again(seeds: range) -> None:
    shown = 0
    for seed in seeds:
        random = Random(seed)
        for talk in random_log(seed):
            withheld = [at for at in range(1, talk.position + 1) if random.random() < 0.15]
            whole = random.random() < 0.5
            pack = pack_of(talk, requests="all", withheld=withheld, whole_history=whole, statement="ü\u2028")
            found = check(pack)
            assert found["exit"] == 0, (seed, talk.name, found)
            assert set(found["withheld"]) == set(withheld)
            assert bool(found["log_head"]) == whole
            shown += len(found["requests"])

            with stenolog.open(":memory:") as other:
                brought(other, pack)
                back = other[talk.name]
                assert (back.position, back.digest) == (talk.position, talk.digest)
                # Some pictures of the histories are nowhere.
                assert {one.code for one in verify(other).problems} <= {"blob"}
                assert sorted(back.withheld()) == withheld
                assert brought(other, pack).conversations[0].appended == 0
                again = check(pack_of(back, requests="all"))
                # More requests at most: of words that are not here, none can be found in them.
                assert set(again.pop("requests")) >= set(found.pop("requests")), (seed, talk.name)
                assert {**again, "log_head": ""} == {**found, "log_head": ""}, (seed, talk.name)
    assert shown > len(seeds)


@seeds(20, slow=100, nightly=1_000)
def test_an_import_refuses_what_the_verifiers_refuse_for_the_same_reason(seeds: range) -> None:
    with stenolog.open(":memory:") as log:
        for seed in seeds:
            random = Random(seed)
            pack = random_pack(random)
            cases = [pack, *(change(random, pack) for change in (changed, forged) for _ in range(20))]
            for each in cases:
                found, reader = check(each), PackReader(_is_signed)
                if found["exit"] == 2:
                    continue
                try:
                    for line in BytesIO(each):
                        reader.take(line)
                    reader.end()
                    verdict = ("", 0)
                except CorruptLogError as error:
                    _, number, name, _ = str(error).split(": ", 3)
                    verdict = (name, int(number.removeprefix("line ")))
                assert verdict == (found["check"], found["line"]), each
        with pytest.raises(StenologError):  # it says what no log of ours says
            brought(log, forged(Random(1), random_pack(Random(2))))
        assert log.names() == []


def _is_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (ValueError, InvalidSignature):
        return False
    return True


def secretive(seed: int) -> tuple[Tap, dict[int, list[str]]]:
    """Return a log whose entries each have words of their own, and these by position."""
    random, tap = Random(seed), Tap()
    words: dict[int, list[str]] = {}
    talk = tap.log["talk"]

    def token() -> str:
        return f"word{random.randrange(10**12):012}"

    def add(event: Event, *own: str) -> None:
        words[talk.append(with_receipt(talk, event)).position] = [*own]

    persona = token()
    add(ModeSwitch(joins=("coder",), cards={"coder": AgentCard(model="m", persona=persona)}), persona)
    picture = tap.log.blobs.put(token().encode())
    for nth in range(random.randint(2, 6)):
        asked, argument, got, answer = (token() for _ in range(4))
        add(UserMessage(text=asked, to=("coder",)), asked)
        made = ToolCall(id=f"c{nth}", name="shell", arguments=json.dumps({"cmd": argument}))
        add(AssistantMessage(agent="coder", tool_calls=[made]), argument)
        parts: list[Any] = [TextPart(text=got), ImagePart(media_type="image/png", blob=picture)]
        add(ToolResult(call_id=f"c{nth}", parts=parts[: random.randint(1, 2)]), got)
        add(AssistantMessage(agent="coder", text=answer), answer)
    return tap, words


@seeds(10, slow=60, nightly=600)
def test_what_is_withheld_is_in_no_byte_of_a_pack(seeds: range) -> None:
    for seed in seeds:
        tap, words = secretive(seed)
        talk = tap.log["talk"]
        withheld = Random(seed).sample(sorted(words), Random(seed).randint(1, len(words)))
        pack = pack_of(talk, requests="all", withheld=withheld)
        shown = pack + b"".join(_blobs(pack))

        assert check(pack)["exit"] == 0
        for position, own in words.items():
            assert {word.encode() in shown for word in own} == {position not in withheld}
        salts = [record.salt.hex() for record in talk.records() if record.position in withheld]
        assert not [salt for salt in salts if salt.encode() in pack]


def test_of_a_recorded_program_no_whole_request_is_left_with_what_is_withheld() -> None:
    tap = Tap()
    first = anthropic(user("The password is hunter22, keep it."))
    odd = json.dumps(first, indent=3).encode()
    tap.send(odd, said("I keep it."))
    talk = tap.conversation
    (secret,) = (entry.position for entry in talk.entries() if "hunter22" in getattr(entry.event, "text", ""))
    everything = pack_of(talk, requests="all")
    assert any(b"hunter22" in blob for blob in _blobs(everything))
    assert check(everything)["requests"] == [talk.position]

    pack = pack_of(talk, requests="all", withheld=[secret])
    assert check(pack)["requests"] == []
    assert b"hunter22" not in pack + b"".join(_blobs(pack))


def _blobs(pack: bytes) -> Iterator[bytes]:
    """Yield the blobs of a pack as they are, and decompressed."""
    for line in map(json.loads, BytesIO(pack)):
        if "blob" in line:
            content = b64decode(line["base64"])
            yield content
            with suppress(zlib.error):
                yield zlib.decompress(content)


@pytest.fixture
def talk() -> Iterator[Conversation]:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        talk.append(ModeSwitch(joins=("coder",), cards={"coder": AgentCard(model="m", persona="You code.")}))
        talk.append(UserMessage(text="yes", to=("coder",)))
        talk.append(with_receipt(talk, AssistantMessage(agent="coder", text="The tests are green again.")))
        talk.append(UserMessage(text="Say it: The tests are green again.", to=("coder",)))
        talk.append(with_receipt(talk, AssistantMessage(agent="coder", text="They are.")))
        yield talk


def test_a_withheld_word_cannot_be_guessed(talk: Conversation) -> None:
    stream = StringIO()
    # The receipt of an answer has a digest of all that was sent, which has no salt.
    assert write_pack(talk, stream, PackContents(withheld=[2])).guessable == (3, 5)
    assert write_pack(talk, StringIO(), PackContents(withheld=[2, 3, 5])).guessable == ()
    line = next(line for line in map(json.loads, stream.getvalue().splitlines()) if line.get("position") == 2)
    payload = next(record for record in talk.records() if record.position == 2).payload

    assert line["size"] == len(payload)
    known = {one for at, one in line.items() if at in ("withheld", "digest")} | {talk.digest}
    guesses = [payload, b"", *(payload.replace(b"yes", word) for word in (b"no", b"yes", b"hm"))]
    digests = [bytes.fromhex(record.digest.hex()) for record in talk.records()]
    salts = [b"", bytes(16), *digests, *(digest[:16] for digest in digests)]
    assert not {sha256(salt + guess).hexdigest() for salt in salts for guess in guesses} & known


def test_a_request_of_withheld_words_is_refused_if_named_and_left_out_otherwise(talk: Conversation) -> None:
    stream = StringIO()
    packed = write_pack(talk, stream, PackContents(requests="all", withheld=[3]))

    assert packed.chosen.requests == ()
    assert packed.chosen.left_out == (
        (3, "its answer is withheld"),
        (5, "it was built from 3, which is withheld"),
    ) or packed.chosen.left_out == ((5, "it was built from 3, which is withheld"),)
    assert packed.quoting == (4,)
    for named, why in ((5, "built from 3"), (3, "withheld"), (2, "no answer with a receipt")):
        with pytest.raises(CallerError, match=why):
            write_pack(talk, StringIO(), PackContents(requests=[named], withheld=[3]))


def test_an_entry_that_came_withheld_stays_so_in_each_export_and_is_never_filled_in(
    talk: Conversation, tmp_path: Path
) -> None:
    pack = pack_of(talk, withheld=[2, 4])
    with stenolog.open(tmp_path / "copy.db") as log:
        brought(log, pack)
        copy = log["talk"]
        assert [item.detail for item in copy.timeline() if item.kind == "erased"] == ["withheld", "withheld"]
        assert [run.rule for run in copy.request("coder").omissions] == ["withheld"] * 2
        reasons = {proof.reason for proof in proofs(copy.entries()) if proof.outcome == "not-provable"}
        assert reasons == {"the entry at 2 came withheld"}
        text = StringIO()
        export_jsonl(copy, text)
        with pytest.raises(ConversationExistsError, match="at position 2: withheld here"):
            brought(log, pack_of(talk))
        fork = copy.fork(3, "branch")
        assert check(pack_of(fork))["withheld"] == [2]
    with stenolog.open(":memory:") as other:
        brought(other, text.getvalue().encode())
        assert check(pack_of(other["talk"]))["withheld"] == [2, 4]
        import_file(other, tmp_path / "copy.db")
        assert sorted(other["branch"].withheld()) == [2]
        assert verify(other).ok


def test_a_pack_that_is_wrong_at_its_end_adds_nothing(talk: Conversation) -> None:
    pack = pack_of(talk)
    with stenolog.open(":memory:") as log:
        with pytest.raises(CorruptLogError, match="the pack is refused: line 9: end: the pack is cut off"):
            brought(log, pack[: pack.index(b'{"end"')])
        assert log.names() == []


def test_an_erasure_is_proved_and_other_conversations_names_are_not_shown(talk: Conversation) -> None:
    talk.erase(2, by="Ada", reason="a password")
    talk.log["the merger"].append(UserMessage(text="hello"))
    pack = pack_of(talk, whole_history=True)

    found = check(pack)
    assert (found["exit"], found["erased"]) == (0, [2])
    assert found["log_head"] == verify(talk.log).head
    assert b"the merger" not in pack


# Signatures and time stamps


def key_file(folder: Path, *command: str) -> Path:
    path = folder / "key"
    path.unlink(missing_ok=True)
    subprocess.run([*command, str(path)], check=True, capture_output=True)
    return path


PEM = ("openssl", "genpkey", "-algorithm", "ed25519", "-out")
OPENSSH = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f")
LOCKED = (*PEM[:-1], "-aes256", "-pass", "pass:open sesame", "-out")


@pytest.mark.parametrize(("command", "passphrase"), [(PEM, None), (OPENSSH, None), (LOCKED, "open sesame")])
def test_a_pack_is_signed_by_a_key_of_openssl_or_openssh(
    talk: Conversation, tmp_path: Path, command: tuple[str, ...], passphrase: str | None
) -> None:
    signer = read_signer(key_file(tmp_path, *command), by="Ada Ü", passphrase=passphrase)
    pack = pack_of(talk, signer=signer, withheld=[2])

    assert check(pack, key=signer.key.hex())["signed"] == [[signer.key.hex(), "Ada Ü"]]
    assert check(pack, key="00" * 32)["check"] == "key"
    with stenolog.open(":memory:") as log:
        brought(log, pack)
        assert log["talk"].digest == talk.digest


RSA = ("openssl", "genpkey", "-algorithm", "rsa", "-out")


@pytest.mark.parametrize(
    ("command", "passphrase", "why"),
    [
        (RSA, None, "expected an Ed25519 key, found one of RSA"),
        (LOCKED, None, "set STENOLOG_SIGN_PASSPHRASE"),
        (LOCKED, "wrong", "found something else"),
        (PEM, "any", "it has none"),
        (("cp", __file__), None, "expected a private key in PEM or of OpenSSH, found something else"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_without_a_word_of_it(
    tmp_path: Path, command: tuple[str, ...], passphrase: str | None, why: str
) -> None:
    path = key_file(tmp_path, *command)
    with pytest.raises(CallerError, match=why) as refused:
        read_signer(path, passphrase=passphrase)

    assert not [line for line in path.read_text().split() if len(line) > 30 and line in str(refused.value)]


def test_without_the_extra_a_signature_is_neither_made_nor_believed(
    talk: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = key_file(tmp_path, *PEM)
    pack = pack_of(talk, signer=read_signer(path))
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)

    with pytest.raises(MissingExtraError, match=r"stenolog\[evidence\]"):
        read_signer(path)
    with stenolog.open(":memory:") as log, pytest.raises(MissingExtraError):
        brought(log, pack)


REPLY = ("ts", "-reply", "-config", "tsa.cnf", "-queryfile", "query.tsq", "-out", "reply.tsr")
NEW_KEY = ("-newkey", "rsa:2048", "-nodes", "-keyout", "tsa.key", "-out", "tsa.pem")
CERTIFICATE = ("req", "-x509", "-config", "tsa.cnf", *NEW_KEY)


@contextmanager
def authority(folder: Path, *, answer: bytes | None = None) -> Iterator[str]:
    """Run a time-stamping authority of openssl's own behind a local server; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            (folder / "query.tsq").write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            _openssl(folder, *REPLY)
            content = (folder / "reply.tsr").read_bytes() if answer is None else answer
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    (folder / "tsa.cnf").write_text(TSA)
    _openssl(folder, *CERTIFICATE)
    (folder / "serial").write_text("01\n")
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/stamp?account=secret"
        server.shutdown()
        thread.join()


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


TSA = """
[req]
distinguished_name = name
x509_extensions = stamping
prompt = no
[name]
CN = a test
[stamping]
extendedKeyUsage = critical,timeStamping
[tsa]
default_tsa = one
[one]
serial = serial
signer_cert = tsa.pem
signer_key = tsa.key
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256
ess_cert_id_alg = sha256
"""


def test_a_time_stamp_is_of_the_pack_and_openssl_agrees(talk: Conversation, tmp_path: Path) -> None:
    printing = f"{sys.executable} -c 'import sys; print(sys.argv[1])'"
    with authority(tmp_path) as url:
        pack = pack_of(talk, anchors=[url, printing])
    stamp, output = (line for line in map(json.loads, BytesIO(pack)) if "anchor" in line)

    assert check(pack)["exit"] == 0
    assert (stamp["name"], b"secret" in pack) == (url.partition("?")[0], False)
    assert (output["anchor"], b64decode(output["answer"]).decode()) == ("command", output["of"] + "\n")
    (tmp_path / "answer.tsr").write_bytes(b64decode(stamp["answer"]))
    _openssl(tmp_path, "ts", "-verify", "-in", "answer.tsr", "-digest", stamp["of"], "-CAfile", "tsa.pem")


def test_an_anchor_that_stamps_nothing_is_an_error_and_no_pack(talk: Conversation, tmp_path: Path) -> None:
    refusal = bytes.fromhex("3005300302010 2".replace(" ", ""))
    for answer, why in ((refusal, "found status 2"), (b"<html>", "an answer that is none")):
        with authority(tmp_path, answer=answer) as url, pytest.raises(OperationalError, match=why):
            pack_of(talk, anchors=[url])
    with pytest.raises(OperationalError, match="false failed with 1"):
        pack_of(talk, anchors=["false"])
    with pytest.raises(CallerError, match="expected a URL or a command, found nothing"):
        pack_of(talk, anchors=["  "])
