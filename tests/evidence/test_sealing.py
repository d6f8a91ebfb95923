"""Signatures and time stamps of evidence packs, with the keys and the authority of other programs."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread

import pytest

import stenolog
from stenolog import (
    Conversation,
)
from stenolog.errors import (
    CallerError,
    MissingExtraError,
    OperationalError,
)
from stenolog.importers import (
    read_signer,
)

from .given import brought, check, pack_of


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
