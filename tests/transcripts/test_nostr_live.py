"""References in live messages to events of Nostr that a conversation holds."""

from __future__ import annotations

from stenolog import UserMessage
from stenolog.contrib.nostr import with_references
from tests.transcripts.given import Import
from tests.transcripts.signing import bot, entity, event, key

ROOT = event("ann", "Build it.", kind=11, to="coder")
BUILT = event("coder", "Built.\nIn blue.", ["llm-model", "m-1"], at=4, under=ROOT["id"])
ELSEWHERE = event("ann", "A secret.", kind=11, at=5)


def note(of: dict[str, object]) -> str:
    return f"nostr:{entity('note', bytes.fromhex(str(of['id'])))}"


def person(who: str) -> str:
    return f"nostr:{entity('npub', bytes.fromhex(key(who)))}"


def live(into: Import, text: str, **options: object) -> str:
    into.records(bot("coder"), ROOT, BUILT, ELSEWHERE)
    return with_references(into.log[ROOT["id"]], text, **options)  # type: ignore[arg-type]


def test_a_live_message_quotes_the_event_that_it_refers_to_and_names_the_author(into: Import) -> None:
    text = live(into, f"{person('coder')}, mend {note(BUILT)}")

    assert text == "@coder, mend \n> coder: Built.\n> In blue."
    conversation = into.log[ROOT["id"]]
    conversation.append(UserMessage(text, to=("coder",)))
    assert "> In blue." in str(conversation.request("coder").body)


def test_an_event_of_another_conversation_is_not_looked_at_unless_it_is_found_elsewhere(into: Import) -> None:
    assert live(into, note(ELSEWHERE)) == note(ELSEWHERE)
    assert live(into, note(ELSEWHERE), find=lambda id: "ann: said" if id == ELSEWHERE["id"] else None) == (
        "> ann: said"
    )


def test_an_author_who_has_not_spoken_yet_is_named_by_the_caller_or_left(into: Import) -> None:
    assert live(into, f"Ask {person('bob')}") == f"Ask {person('bob')}"
    assert live(into, f"Ask {person('bob')}", names={key("bob"): "bob"}) == "Ask @bob"


def test_erased_words_are_not_quoted(into: Import) -> None:
    into.records(bot("coder"), ROOT, BUILT)
    conversation = into.log[ROOT["id"]]
    entry = conversation.entry_by_id(BUILT["id"])
    assert entry is not None
    conversation.erase(entry.position, reason="test")

    assert with_references(conversation, note(BUILT)) == note(BUILT)
