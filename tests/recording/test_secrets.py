"""Secrets are found by their forms, and examples in documents are not."""

from __future__ import annotations

import gzip
import json
import random
import re
import string
import time
import zlib
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

import stenolog
from stenolog import UserMessage
from stenolog.apps.tap.exchanges.exchange import LARGEST_CONTENT, RecordedExchange, decoded
from stenolog.apps.tap.exchanges.redacted_stream import redacted_stream
from stenolog.apps.tap.exchanges.secrets import redacted, secrets_in
from stenolog.apps.tap.exchanges.websocket import Websocket
from tests.file_bytes import files_with
from tests.recording.given import Tap, anthropic, assistant, compact, outcomes, said, user

LETTERS = string.ascii_letters + string.digits
HEX, UPPER = "0123456789abcdef", string.ascii_uppercase + string.digits


def some(signs: str, number: int, seed: int = 1) -> str:
    return "".join(random.Random(seed).choices(signs, k=number))


# Made up from the forms that their issuers document, and put together here: no scanner takes them for real.
SAMPLES = {
    "anthropic-key": "sk-ant-" + "api03-" + some(LETTERS, 93),
    "openrouter-key": "sk-or-" + "v1-" + some(HEX, 64),
    "openai-key": "sk-" + "proj-" + some(LETTERS, 74),
    "google-api-key": "AI" + "za" + some(LETTERS, 35),
    "google-oauth": "ya" + "29." + some(LETTERS, 60),
    "aws-access-key": "AK" + "IA" + some(UPPER, 16),
    "github-token": "gh" + "p_" + some(LETTERS, 36),
    "gitlab-token": "gl" + "pat-" + some(LETTERS, 20),
    "slack-token": "xo" + "xb-" + "123456789012-" + some(LETTERS, 24),
    "slack-webhook": "https://hooks." + "slack.com/services/T00000000/B00000000/" + some(LETTERS, 24),
    "telegram-token": "123456789" + ":AA" + some(LETTERS, 33),
    "stripe-key": "sk_" + "live_" + some(LETTERS, 24),
    "square-key": "sq0" + "atp-" + some(LETTERS, 22),
    "shopify-token": "shp" + "at_" + some(HEX, 32),
    "sendgrid-key": "S" + "G." + some(LETTERS, 22) + "." + some(LETTERS, 43),
    "mailgun-key": "ke" + "y-" + some(HEX, 32),
    "npm-token": "np" + "m_" + some(LETTERS, 36),
    "pypi-token": "py" + "pi-AgE" + some(LETTERS, 60),
    "docker-token": "dckr" + "_pat_" + some(LETTERS, 27),
    "huggingface-token": "h" + "f_" + some(LETTERS, 34),
    "groq-key": "gs" + "k_" + some(LETTERS, 52),
    "xai-key": "xa" + "i-" + some(LETTERS, 80),
    "databricks-token": "da" + "pi" + some(HEX, 32),
    "digitalocean-token": "do" + "p_v1_" + some(HEX, 64),
    "supabase-key": "sb" + "p_" + some(HEX, 40),
    "linear-key": "lin_" + "api_" + some(LETTERS, 40),
    "notion-token": "nt" + "n_" + some(LETTERS, 46),
    "airtable-token": "pa" + "t" + some(LETTERS, 14) + "." + some(HEX, 64),
    "postman-key": "PM" + "AK-" + some(HEX, 24) + "-" + some(HEX, 34),
    "hashicorp-token": "hv" + "s." + some(LETTERS, 90),
    "jwt": "ey" + "J" + some(LETTERS, 20) + ".ey" + "J" + some(LETTERS, 40) + "." + some(LETTERS, 43),
    "private-key": "-----BEGIN RSA "
    + "PRIVATE KEY-----\n"
    + some(LETTERS, 64)
    + "\n-----END RSA PRIVATE KEY-----",
    "age-key": "AGE-SECRET" + "-KEY-1" + some(UPPER, 58),
    "sentry-token": "sn" + "trys_" + some(LETTERS, 60),
    "grafana-token": "gl" + "sa_" + some(LETTERS, 32) + "_" + some(HEX, 8),
}
IN_CONTEXT = {
    "aws-secret": ("aws_secret_access_key = {}", some(LETTERS, 40)),
    "twilio-key": ("TWILIO_SID = {}", "S" + "K" + some(HEX, 32)),
    "azure-storage-key": ("AccountName=x;AccountKey={};End", some(LETTERS, 86) + "=="),
    "url-password": ("postgresql://baker:{}@db.internal/loaves", "Sourd0ugh!x"),
    "bearer": ("curl -H 'Authorization: Bearer {}'", some(LETTERS, 30)),
    "assigned": ('{{"password": "{}"}}', "correct-horse-battery"),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_secret_is_found_whole_wherever_it_stands(kind: str) -> None:
    for around in ("{}", "the key is {}, keep it", '{{"env": {{"X": "{}"}}}}', "A={}\nB=1"):
        text, secret = around.format(SAMPLES[kind]), SAMPLES[kind]
        found = [text[each.first : each.end] for each in secrets_in(text)]

        assert found == [secret], around
        assert secret not in redacted(text)[0]


@pytest.mark.parametrize("kind", IN_CONTEXT)
def test_a_secret_without_a_form_is_found_by_what_stands_before_it(kind: str) -> None:
    around, secret = IN_CONTEXT[kind]
    text = around.format(secret)

    assert [(each.kind, text[each.first : each.end]) for each in secrets_in(text)] == [(kind, secret)]
    assert redacted(text) == (around.format(f"[redacted {kind}]"), (kind,))


def test_secrets_of_one_kind_are_found_however_near_they_stand() -> None:
    secrets = ["gh" + "p_" + some(LETTERS, 36, seed) for seed in range(3)]

    assert redacted(" ".join(secrets))[0] == " ".join(["[redacted github-token]"] * 3)


@pytest.mark.parametrize("escaped", [r"\n{}", r"\t{}", r"\\n{}", r"\\\\n{}", r"\u003d{}"])
@pytest.mark.parametrize("kind", SAMPLES)
def test_a_secret_is_found_behind_an_escape_of_json(kind: str, escaped: str) -> None:
    secret = json.dumps(SAMPLES[kind])[1:-1]

    assert redacted(f'"{escaped.format(secret)}"')[0] == f'"{escaped.format(f"[redacted {kind}]")}"'


def test_a_secret_is_found_whose_own_characters_are_escaped() -> None:
    token, hook = SAMPLES["github-token"], SAMPLES["slack-webhook"]
    text = token.replace("_", r"\u005f") + " and " + hook.replace("/", r"\/")

    assert redacted(text)[0] == "[redacted github-token] and [redacted slack-webhook]"


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_json_stays_json_when_a_file_of_settings_is_redacted_in_it(layers: int) -> None:
    text = "DB_PASSWORD=sourdough99\nDB_PORT=1\nMAIL_PASSWORD=sourdough98"
    for _ in range(layers):
        text = json.dumps({"content": text})
    found: Any = redacted(text)[0]
    for _ in range(layers):
        found = json.loads(found)["content"]

    assert found == "DB_PASSWORD=[redacted assigned]\nDB_PORT=1\nMAIL_PASSWORD=[redacted assigned]"


@pytest.mark.parametrize("words", ["a key, a token and a path at http://x ", "\\" * 40])
def test_a_text_full_of_what_stands_before_secrets_is_searched_once(words: str) -> None:
    text = words * 5_000
    began = time.process_time()

    assert list(secrets_in(text)) == []
    assert time.process_time() - began < 2.0  # some seconds, if each word were searched behind anew


@pytest.mark.parametrize(
    "text",
    [
        "Set the token in `GITHUB_TOKEN`, and the password in the settings.",
        'api_key = "YOUR_API_KEY"',
        "password: ********",
        "export TOKEN=$OTHER_TOKEN",
        'secret: "${SECRET}"',
        'token = os.environ["TOKEN"]',
        "https://github.com/baker/loaves@main",
        "sk-learn and risk-aversion-of-the-individual",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    ],
)
def test_examples_and_ordinary_words_are_no_secrets(text: str) -> None:
    assert list(secrets_in(text)) == []


def test_a_secret_in_a_body_is_listed_with_its_entry_and_not_repeated(tap: Tap) -> None:
    tap.send(anthropic(user("Deploy it.", f"The key is {SAMPLES['npm-token']}.")))
    (position,) = [
        entry.position for entry in tap.entries() if "The key is" in getattr(entry.event, "text", "")
    ]
    meta: Any = tap.entries()[-1].event.meta  # type: ignore[union-attr]

    assert meta["tap"]["secrets"] == [{"kind": "npm-token", "position": position}]
    assert SAMPLES["npm-token"] not in str(meta)


@pytest.mark.parametrize("text", ["eyJ-" * 100_000, "-----BEGIN PRIVATE KEY-----" * 40_000])
def test_what_only_begins_as_a_secret_again_and_again_is_passed_over(text: str) -> None:
    assert redacted(text) == (text, ())


@pytest.mark.parametrize(
    "stream",
    [
        "data: {}\n\ndata: {}\n\ndata: {}\n\n",
        "\ufeffdata:{}\r\rdata:{}\r\rdata:{}\r\r",
        "{}\n{}\n{}\n",
        "[{},\r\n{},\r\n{}]",
    ],
    ids=["events", "returns", "lines", "list"],
)
def test_a_secret_in_pieces_is_found_in_each_form_of_a_stream(stream: str) -> None:
    token = SAMPLES["github-token"]
    pieces = [json.dumps({"a": [{"d": piece}]}) for piece in (token[:9], token[9:20], token[20:])]
    found, kinds = redacted_stream(stream.replace("{}", "%s") % tuple(pieces))

    assert kinds == ("github-token",)
    assert "".join(re.findall(r'"d": ?"(.*?)"', found)) == "[redacted github-token]"


def test_a_secret_is_found_where_the_pieces_of_another_answer_stand_between_its_own() -> None:
    token = SAMPLES["github-token"]
    spoken = [
        (at % 2, f"{piece:.5}" if at % 2 else " and ") for at, piece in enumerate(re.split("(.{5})", token))
    ]
    events = [{"choices": [{"index": index, "delta": piece}]} for index, piece in spoken]
    found, kinds = redacted_stream("".join(f"data: {json.dumps(event)}\n\n" for event in events))

    assert kinds == ("github-token",)
    assert found.count("redacted") == 1


def test_one_document_keeps_its_bytes_beside_the_secret() -> None:
    written = '{ "a" : "%s" ,\n "b":1 }'
    assert redacted_stream(written % SAMPLES["github-token"])[0] == written % "[redacted github-token]"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_a_body_that_is_packed_beyond_all_measure_is_not_unpacked(coding: str) -> None:
    packers: dict[str, Any] = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "br": partial(brotli.compress, quality=1),
        "zstd": zstandard.compress,
    }
    content = bytes(LARGEST_CONTENT + 1)
    for name in coding.split(", "):
        content = packers[name](content)

    with pytest.raises(ValueError, match="expected at most 134,217,728 bytes, found more"):
        decoded(content, coding)


@pytest.mark.parametrize("beyond", [False, True])
def test_a_message_of_a_websocket_is_read_unless_it_is_packed_beyond_all_measure(beyond: bool) -> None:
    message = json.dumps({"type": "response.create", "input": " " * (LARGEST_CONTENT * beyond)}).encode()
    packer = zlib.compressobj(wbits=-15)
    packed = (packer.compress(message) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]
    frame = b"\xc1\xff" + len(packed).to_bytes(8, "big") + bytes(4) + packed
    extensions = {"sec-websocket-extensions": "permessage-deflate"}
    upgrade = RecordedExchange("1", datetime.now(UTC), "GET", "/", "openai", answer_headers=extensions)

    assert len([*Websocket(upgrade).take("up", frame, 0)]) == (not beyond)


# Words that are erased are gone from the receipts of recorded requests, too.


SECRET = "My number is 555-0123-4567, and nobody must know it, not even the other bakers in the village."


@pytest.mark.parametrize("form", ["plain", "raw", "in an odd form", "short"])
def test_erased_words_are_in_no_file_and_the_requests_with_them_cannot_be_proved(
    tmp_path: Path, form: str
) -> None:
    words = "555-0123" if form == "short" else SECRET
    with stenolog.open(tmp_path / "talks.db") as log:
        tap = Tap(log)
        first = anthropic({"role": "user", "content": words} if form == "short" else user(words))
        tap.send(first, said("Noted."))
        again = anthropic(*first["messages"], assistant("Noted."), user("Go on."))
        if form == "in an odd form":
            again["note"] = f"<copy>{words}</copy> of what was said before, which no part of ours can give"
        content = compact(again)
        tap.send(content.replace(b'"stream":true', b'"stream":true ') if form == "raw" else content)
        assert outcomes(tap.proofs()) == {"same"}
        (position,) = [
            e.position for e in tap.entries() if isinstance(e.event, UserMessage) and e.event.text == words
        ]
        erased = tap.conversation.erase(position, reason="asked for")
        kept = [] if form == "in an odd form" else tap.proofs()

        assert erased.is_complete
        assert {proof.outcome for proof in kept} <= {"not-provable"}
    assert files_with(tmp_path, words[:60].encode()) == []
