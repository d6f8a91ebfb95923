"""Evidence packs of real logs: they verify, they come back, and what is withheld is in none of them."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from io import BytesIO, StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stenolog
from stenolog import (
    AgentCard,
    AssistantMessage,
    Conversation,
    Event,
    ModeSwitch,
    ToolCall,
    ToolResult,
    UserMessage,
)
from stenolog.errors import (
    CallerError,
    ConversationExistsError,
    CorruptLogError,
    StenologError,
)
from stenolog.importers import (
    PackContents,
    export_jsonl,
    import_file,
    write_pack,
)
from stenolog.maintenance import verify
from stenolog.parts import ImagePart, TextPart
from stenolog.requests import proofs
from tests.random_cases import seeds
from tests.recording.given import Tap, anthropic, said, user

from .given import brought, check, pack_of, random_log, with_receipt
from .packs import forged, random_pack


@seeds(12, slow=60, nightly=600)
def test_each_pack_verifies_comes_back_with_its_digests_and_is_made_again(seeds: range) -> None:
    shown = 0
    for seed in seeds:
        random = Random(seed)
        for talk in random_log(seed):
            withheld = [at for at in range(1, talk.position + 1) if random.random() < 0.15]
            whole = random.random() < 0.5
            asked: dict[str, Any] = {"requests": "all", "withheld": withheld, "statement": "ü\u2028"}
            pack = pack_of(talk, **asked, whole_history=whole, show_guessable=True)
            found = check(pack)
            assert found["exit"] == 0, (seed, talk.name, found)
            assert set(found["withheld"]) == set(withheld)
            assert check(pack_of(talk, **asked))["exit"] == 0
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
                again = check(pack_of(back, requests="all", show_guessable=True))
                # Without the withheld words, fewer requests are built to the byte.
                del again["requests"], found["requests"]
                assert {**again, "log_head": ""} == {**found, "log_head": ""}, (seed, talk.name)
    assert shown > len(seeds)


@seeds(20, slow=100, nightly=1_000)
def test_a_pack_that_is_refused_adds_nothing(seeds: range) -> None:
    with stenolog.open(":memory:") as log:
        for seed in seeds:
            pack = forged(Random(seed), random_pack(Random(seed)))
            if check(pack)["exit"]:
                with pytest.raises(StenologError):
                    brought(log, pack)
        assert log.names() == []


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
        asked = Random(seed).sample(sorted(words), Random(seed).randint(1, len(words)))
        pack = pack_of(talk, requests="all", withheld=asked, show_guessable=seed % 2 == 0)
        shown = pack + b"".join(_blobs(pack))

        found = check(pack)
        withheld = found["withheld"]
        assert (found["exit"], {*asked} <= {*withheld}) == (0, True)
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


def test_a_short_word_is_guessed_from_a_receipt_only_if_such_receipts_are_asked_for(
    talk: Conversation,
) -> None:
    # The receipt of an answer has a digest of all that was sent, which has no salt.
    with stenolog.open(":memory:") as log:
        again = log["again"]
        for entry in [*talk.entries()][:2]:
            again.append(entry.event)
        digest = again.request("coder").sha256.encode()
    given = {"requests": "all", "withheld": [2]}
    packed = write_pack(talk, StringIO(), PackContents(withheld=[2]))

    assert digest in pack_of(talk, **given, show_guessable=True)
    assert digest not in pack_of(talk, **given)
    assert (packed.withheld, packed.guessable) == ((2, 3, 5), (3, 5))
    with pytest.raises(CallerError, match="built from 2"):
        pack_of(talk, requests=[3], withheld=[2])


def test_a_digest_of_a_withheld_entry_is_of_no_guess_without_its_salt(talk: Conversation) -> None:
    stream = StringIO()
    write_pack(talk, stream, PackContents(withheld=[2]))
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
    packed = write_pack(talk, stream, PackContents(requests="all", withheld=[3], show_guessable=True))

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
    pack = pack_of(talk, withheld=[2, 4], show_guessable=True)
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
        assert check(pack_of(fork, show_guessable=True))["withheld"] == [2]
    with stenolog.open(":memory:") as other:
        brought(other, text.getvalue().encode())
        assert check(pack_of(other["talk"], show_guessable=True))["withheld"] == [2, 4]
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


def test_a_request_with_the_parameters_of_a_withheld_card_is_left_out() -> None:
    with stenolog.open(":memory:") as log:
        talk = log["talk"]
        card = AgentCard(model="m", parameters={"temperature": 0.123})
        talk.append(ModeSwitch(joins=("coder",), cards={"coder": card}))
        talk.append(UserMessage(text="Which test fails?", to=("coder",)))
        talk.append(with_receipt(talk, AssistantMessage(agent="coder", text="None.")))

        assert b"0.123" in pack_of(talk)
        assert b"0.123" not in pack_of(talk, withheld=[1])


def test_a_producer_is_told_where_withheld_words_are_quoted() -> None:
    with stenolog.open(":memory:") as log:
        talk = log["about xylophone9"]
        talk.append(UserMessage(text="Xylophone9"))
        arguments = json.dumps({"body": json.dumps({"text": "It is xylophone9."})})
        talk.append(
            AssistantMessage(agent="a", tool_calls=[ToolCall(id="c", name="mail", arguments=arguments)])
        )
        talk.append(ToolResult(call_id="c", text="sent"))
        packed = write_pack(talk, StringIO(), PackContents(withheld=(2,), statement="without xylophone9"))

    assert packed.quoting == (3,)
    assert packed.also_quoting == ("the name of the conversation", "the statement")
