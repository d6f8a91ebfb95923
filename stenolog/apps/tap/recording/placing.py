"""Placing of requests: which conversation and which lane one belongs to, and by which rule.

The first rule that decides counts. In doubt a request begins a conversation of its own: a wrong split is
ugly, a wrong merge is a lie.

1. `session`: the client's own id of its session, and of the agent in it.
2. `response`: the id of the response that it goes on from.
3. `answer`: it begins with all messages of a lane's last request, and the recorded answer follows them.
   Or its last answer is the lane's, by ids of calls or in many words, and most of its messages are.
4. `retry`: it is the last request of a lane once more, or goes on from it, and the answer to that had failed.
5. `summary`: it holds the summary that a lane was given as its last answer.
6. `call`: its first words are an argument of a call that is still open: a sub-agent's brief.
7. `words`: it begins by the first words of the one conversation of its client and folder that has its last
   answer too, with the same instructions.
8. `title`: it asks for a title by the first words of a conversation that has just begun, or begins by them.
9. `new`: none of these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from stenolog.apps.tap.exchanges.exchange import RecordedExchange
from stenolog.apps.tap.exchanges.identity import SIDE, UNKNOWN, Identity
from stenolog.apps.tap.exchanges.wire import WireRequest, short_hash, texts_of
from stenolog.domain.parts import AssistantPart
from stenolog.projections.messages.json_fields import as_dict, same_from_start, title_of

from .lane import Lane
from .message_events import is_by_client, mark_of
from .session import Session

LONG_ANSWER = 20
"""Characters of an answer, without blanks, that hardly another conversation of so many like messages has."""
RETRY_SECONDS = 900
"""Seconds in which a client tries a failed request again."""
BRIEF = 24
"""Characters of a sub-agent's brief by which it is known as the argument of a call."""
PROMPT_SECONDS = 10
"""Seconds in which a program that is not known goes on with the summary that it has asked for."""
TITLE_WORDS, SHORTEST_TITLE = 200, 8
"""Characters of a first message, without blanks, that a request for a title repeats."""
TITLE_SECONDS = 120
"""Seconds in which a client asks for a title for a conversation that has begun."""


class LanePlace(NamedTuple):
    """The session and lane key that a request belongs to, by a rule.

    `cause` is the position of the call that began the lane, if known.
    """

    session: Session
    key: str
    rule: str
    cause: int | None = None


class Placing:
    """Known sessions, and the rules by which a request belongs to one.

    `begin` opens a conversation for a client and session id ("" for none). `folder` is the client's working
    folder, "" if unknown.
    """

    def __init__(self, begin: Callable[[str, str, RecordedExchange], Session], folder: str = "") -> None:
        self._begin, self._folder = begin, folder
        self.sessions: dict[str, Session] = {}
        self._ends: dict[str, list[tuple[Session, str]]] = {}
        self._responses: dict[str, tuple[Session, str]] = {}
        self._summaries: dict[str, tuple[Session, str]] = {}

    def find(self, exchange: RecordedExchange, request: WireRequest, identity: Identity) -> LanePlace:
        """Return a request's place; a new one if no rule finds one."""
        if identity.session:
            return self._by_id(exchange, request, identity)
        return (
            self._by_response(request)
            or self._by_messages(exchange, request)
            or self._by_last_answer(exchange, request)
            or self._by_summary(exchange, request)
            or self._by_call(exchange, request, self.sessions.values())
            or self._by_first_words(request, identity)
            or self._by_title(exchange, request, identity)
            or self._after_title(exchange, request, identity)
            or self._new(exchange, request, identity)
        )

    def adopt(self, name: str, session: Session) -> None:
        """Take over a session that an earlier process recorded."""
        self.sessions[name] = session
        for key, lane in session.lanes.items():
            self.note(session, key, lane.response)

    def note(self, session: Session, key: str, response: str = "") -> None:
        """Remember a lane's last request and response id."""
        lane = session.lanes[key]
        if lane.hashes:
            *_, end = _chain(lane.hashes)
            self._ends.setdefault(end, []).append((session, key))
        if response:
            self._responses[response] = (session, key)

    def _by_id(self, exchange: RecordedExchange, request: WireRequest, identity: Identity) -> LanePlace:
        id = f"{identity.client}-{identity.session}"
        session = self.sessions.get(id) or self.add(id, identity.client, id, exchange)
        rule = identity.rule
        if identity.agent:
            cause = None
            lane = session.lanes.get(identity.agent)
            if lane is None or not lane.hashes:
                found = self._by_call(exchange, request, [session])
                cause = found.cause if found else None
            key = identity.agent if identity.kind not in SIDE else f"{identity.agent}/{identity.kind}"
            return LanePlace(session, key, rule, cause)
        if identity.kind in SIDE and not _is_turn(session, request):
            return LanePlace(session, identity.kind, rule)
        return LanePlace(session, *self._lane_of(session, exchange, request, rule))

    def _lane_of(
        self, session: Session, exchange: RecordedExchange, request: WireRequest, rule: str
    ) -> tuple[str, str, int | None]:
        """Return a lane's key, rule and cause, if the client names no agent."""
        hashes = request.likenesses
        for key, lane in session.lanes.items():
            if request.previous and lane.has_stored(request.previous):
                return key, rule, None
        for key, lane in session.lanes.items():
            if lane.api == request.api and _goes_on(lane, request, hashes):
                return key, rule, None
        main = session.lanes.get("")
        if main is None or _is_alike(main, request):
            # A count of tokens for something else must not look as if the history had been rewritten.
            odd = (
                main is not None
                and request.kind == "count-tokens"
                and not same_from_start(main.hashes, hashes)
            )
            return ("count-tokens" if odd else ""), rule, None
        for key, lane in session.lanes.items():
            if key and _is_alike(lane, request) and not lane.open and same_from_start(lane.hashes, hashes):
                return key, rule, None
        found = self._by_call(exchange, request, [session])
        return exchange.id, f"{rule}, other prompt", found.cause if found else None

    def _by_response(self, request: WireRequest) -> LanePlace | None:
        found = self._responses.get(request.previous) if request.previous else None
        if found is None:
            return None
        return LanePlace(*found, "response")

    def _by_messages(self, exchange: RecordedExchange, request: WireRequest) -> LanePlace | None:
        """Return the lane whose last request begins this one, if its answer follows, or failed."""
        hashes = request.likenesses
        ends = [*_chain(hashes)]
        for length in range(len(ends), 0, -1):
            for session, key in reversed(self._ends.get(ends[length - 1], ())):
                lane = session.lanes[key]
                if lane.api != request.api or lane.hashes != hashes[:length] or lane.open:
                    continue
                if _is_answered(lane, request, length):
                    return LanePlace(session, key, "answer")
                seconds = (exchange.begun_ns - lane.last_ns) / 1e9
                # With answers of the lane in it, a history is nobody else's; else only the very same request.
                if lane.failed and seconds < RETRY_SECONDS and (length == len(hashes) or lane.has_answers):
                    return LanePlace(session, key, "retry")
        return None

    def _by_last_answer(self, exchange: RecordedExchange, request: WireRequest) -> LanePlace | None:
        mark = mark_of(_last_answer(request))
        if not (any(mark.ids) or len(mark.words) + sum(len(given) for _, given in mark.acts) >= LONG_ANSWER):
            return None
        hashes = set(request.likenesses)
        for session in reversed([*self.sessions.values()]):
            for key, lane in session.lanes.items():
                if lane.api != request.api or lane.open or not lane.answer.fits(mark):
                    continue
                if 2 * len(hashes.intersection(lane.hashes)) >= len(set(lane.hashes)):
                    return LanePlace(session, key, "answer")
        return None

    def _by_summary(self, exchange: RecordedExchange, request: WireRequest) -> LanePlace | None:
        for session in reversed([*self.sessions.values()]):
            for key, lane in session.lanes.items():
                if not lane.summary[0] or lane.api != request.api or lane.open:
                    continue
                # A person who takes a summary to another chat needs longer than a program that goes on.
                is_prompt = (exchange.begun_ns - lane.last_ns) / 1e9 < PROMPT_SECONDS
                is_sure = lane.is_summary or (is_prompt and _is_alike(lane, request))
                if is_sure and lane.holds_summary(request):
                    return LanePlace(session, key, "summary")
        return None

    def _by_call(
        self, exchange: RecordedExchange, request: WireRequest, among: Iterable[Session]
    ) -> LanePlace | None:
        brief = _first_words(request)
        if len(brief) < BRIEF:
            return None
        for session in reversed([*among]):
            for lane in session.lanes.values():
                for id, raw in lane.open_calls.items():
                    if any(_is_brief(brief, argument) for argument in _arguments(raw)):
                        key = next(
                            (k for k, each in session.lanes.items() if each.brief == brief), exchange.id
                        )
                        return LanePlace(session, key, "call", lane.call_positions[id])
        return None

    def _by_first_words(self, request: WireRequest, identity: Identity) -> LanePlace | None:
        """Return the client's only conversation in its folder with these first words and answer."""
        words, answer = title_of(_first_words(request)), _last_answer(request)
        begins = "\n\n".join(request.system_texts)[:HEAD]
        if identity.kind or identity.client == UNKNOWN or not (self._folder and words and answer):
            return None
        found = [
            session
            for session in self.sessions.values()
            if (session.client, session.work.get("cwd"), session.words)
            == (identity.client, self._folder, words)
            and (lane := session.lanes.get("")) is not None
            and not lane.open
            and lane.api == request.api
            and lane.answer_position(answer, set())
            and lane.card is not None
            # Qwen Code's sub-agents repeat the conversation; the end of their prompt is the main agent's.
            and lane.card.persona.startswith(begins)
        ]
        return LanePlace(found[0], "", "words") if len(found) == 1 else None

    def _by_title(
        self, exchange: RecordedExchange, request: WireRequest, identity: Identity
    ) -> LanePlace | None:
        if identity.kind != "title":
            return None
        words = "".join(_all_words(request).split())
        for session in reversed([*self.sessions.values()]):
            title = "".join(session.words.rstrip("…").split())
            is_near = (exchange.begun_ns - session.last_ns) / 1e9 < TITLE_SECONDS
            has_title = "title" in session.lanes
            if session.client != identity.client or has_title or not is_near:
                continue
            if len(title) >= SHORTEST_TITLE and title in words:
                return LanePlace(session, "title", "title")
        return None

    def _after_title(
        self, exchange: RecordedExchange, request: WireRequest, identity: Identity
    ) -> LanePlace | None:
        """Return the session with only a title, requested with these first words."""
        if identity.kind:  # another request for a title, say: all of them begin with the same instruction
            return None
        words = "".join(_first_words(request).split())[:TITLE_WORDS]
        for session in reversed([*self.sessions.values()]):
            is_near = (exchange.begun_ns - session.last_ns) / 1e9 < TITLE_SECONDS
            if [*session.lanes] == ["title"] and session.client == identity.client and is_near:
                asked = "".join(session.title_words.split())
                if len(words) >= SHORTEST_TITLE and words in asked:
                    return LanePlace(session, "", "title")
        return None

    def _new(self, exchange: RecordedExchange, request: WireRequest, identity: Identity) -> LanePlace:
        session = self.add(new_name(identity.client, exchange), identity.client, "", exchange)
        if identity.kind == "title":
            session.title_words = _all_words(request)
        return LanePlace(session, identity.kind if identity.kind in SIDE else "", "new")

    def add(self, name: str, client: str, id: str, exchange: RecordedExchange) -> Session:
        """Return a new session, or one that was recorded before under that name."""
        session = self._begin(name, client, exchange)
        session.id = id or name
        self.adopt(name, session)
        return session


def new_name(client: str, exchange: RecordedExchange) -> str:
    """Return the name of a conversation that begins with an exchange, and no id of a session."""
    # Two taps count their exchanges alike; recorded again after a crash, an exchange has its name again.
    mark = sha256(exchange.id.encode()).hexdigest()[:6]
    return f"{client}-{exchange.time:%Y%m%d-%H%M%S}-{mark}"


def _chain(hashes: Iterable[str]) -> Iterator[str]:
    so_far = ""
    for each in hashes:
        so_far = short_hash(so_far + each)
        yield so_far


def _is_turn(session: Session, request: WireRequest) -> bool:
    main = session.lanes.get("")
    return main is not None and main.api == request.api and _goes_on(main, request, request.likenesses)


def _goes_on(lane: Lane, request: WireRequest, hashes: Sequence[str]) -> bool:
    length = len(lane.hashes)
    is_longer = 0 < length <= len(hashes) and same_from_start(lane.hashes, hashes) == length
    return is_longer and length > request.history_start


def _last_answer(request: WireRequest) -> list[AssistantPart]:
    found: list[AssistantPart] = []
    for index in reversed(range(len(request.messages))):
        message = request.read(index)
        if message.role == "assistant":
            found[:0] = message.answer
        elif found:
            break
    return found


def _is_answered(lane: Lane, request: WireRequest, length: int) -> bool:
    following = list[AssistantPart]()
    for index in range(length, len(request.messages)):
        message = request.read(index)
        if message.role != "assistant":
            break
        following += message.answer
    return lane.answer.fits(mark_of(following))


def _is_alike(lane: Lane, request: WireRequest) -> bool:
    card = lane.card
    if card is None or lane.api != request.api:
        return False
    texts = request.system_texts
    now, before = "\n\n".join(texts), card.persona
    tools = {str(each.get("name")) for each in request.declared_tools}
    ours = {tool.name for tool in card.tools or ()}
    same_prompt = now[:HEAD] == before[:HEAD] or (len(now) > HEAD and now[-HEAD:] == before[-HEAD:])
    return same_prompt and (not ours or not tools or len(ours & tools) * 2 >= len(ours))


HEAD = 400
"""Characters at the beginning, or at the end, by which two prompts are versions of one."""


def _first_words(request: WireRequest) -> str:
    """Return the first user's words, without the client's additions."""
    for index in range(request.history_start, len(request.messages)):
        if request.read(index).role == "user":
            texts = [
                t
                for t in texts_of(request.messages[index])
                if not (t.lstrip().startswith("<") or is_by_client(t))
            ]
            if texts:
                return texts[-1].strip()
    return ""


def _all_words(request: WireRequest) -> str:
    return " ".join(text for message in request.messages for text in texts_of(message))


def _arguments(raw: str) -> Iterator[str]:
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError):
        return
    yield from (value for value in as_dict(given).values() if isinstance(value, str))


def _is_brief(brief: str, argument: str) -> bool:
    return len(argument) >= BRIEF and (brief == argument.strip() or argument.strip() in brief)
