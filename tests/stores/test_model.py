"""The log against a model of it: lists of texts by name, changed by random steps."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

import stenolog
from stenolog import Conversation, NewEntry, UserMessage, VersionConflictError
from stenolog.errors import ConversationExistsError
from stenolog.maintenance import verify
from tests.stores.conftest import texts

WORDS = st.text("abc \n\0é🙂", max_size=8)
NAMES = st.sampled_from(["demo", "Ünïcode", "a/b", "demo~1"])


class Model(RuleBasedStateMachine):
    """Each conversation as the texts and ids that it must hold, each fork with its own copy of them."""

    names = Bundle("names")

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "talks.db"
        self.log = stenolog.open(self.path, synchronous="normal")
        self.said: dict[str, list[tuple[str, str]]] = {}
        self.parents: dict[str, str] = {}

    def teardown(self) -> None:
        self.log.close()
        with stenolog.open(self.path) as log:
            assert verify(log).ok
        self.folder.cleanup()

    @rule(target=names, name=NAMES, text=WORDS)
    def begin(self, name: str, text: str) -> str:
        self.append(name, text)
        return name

    def append(self, name: str, text: str) -> None:
        entry = self.log[name].append(UserMessage(text=text))
        self.said.setdefault(name, []).append((entry.id, text))

    @rule(name=names, some=st.lists(WORDS, max_size=4), strict=st.booleans())
    def extend(self, name: str, some: list[str], strict: bool) -> None:
        if name in self.said:
            conversation = self.log[name]
            entries = conversation.extend(
                [UserMessage(text=text) for text in some], expected=conversation.position if strict else None
            )
            self.said[name] += [(entry.id, text) for entry, text in zip(entries, some, strict=True)]

    @rule(name=names)
    def repeat(self, name: str) -> None:
        """Append twice: the log has it once, and an append expected elsewhere is refused."""
        if name in self.said:
            conversation = self.log[name]
            own = [(e.id, e.event.text) for e in conversation.entries() if isinstance(e.event, UserMessage)]
            mine = [pair for pair in own if self.is_own(conversation, pair[0])]
            conversation.extend([NewEntry(UserMessage(text=text), id=id) for id, text in mine])
            with pytest.raises(VersionConflictError):
                conversation.append(UserMessage(text="late"), expected=conversation.position - 1)

    def is_own(self, conversation: Conversation, id: str) -> bool:
        """Return whether the entry is the conversation's own, and not one that it inherits."""
        parent = self.parents.get(conversation.name)
        return parent is None or all(entry.id != id for entry in list(self.log[parent].entries()))

    @rule(target=names, name=names, data=st.data())
    def fork(self, name: str, data: st.DataObject) -> str:
        if name not in self.said:
            return name
        conversation = self.log[name]
        after = data.draw(st.integers(0, conversation.position))
        kept = texts(conversation, at=after)
        made = conversation.fork(after=after)
        self.said[made.name] = self.said[name][: len(kept)]
        self.parents[made.name] = name
        return made.name

    @rule(target=names, name=consumes(names), new=st.sampled_from(["x", "y", "demo"]))
    def rename(self, name: str, new: str) -> str:
        if name not in self.said:
            return name
        if new in self.said and new != name:
            with pytest.raises(ConversationExistsError):
                self.log[name].rename(new)
            return name
        self.log[name].rename(new)
        self.said[new] = self.said.pop(name)
        if name in self.parents:
            self.parents[new] = self.parents.pop(name)
        self.parents = {fork: new if parent == name else parent for fork, parent in self.parents.items()}
        return new

    @rule(name=consumes(names))
    def delete(self, name: str) -> None:
        if name not in self.said:
            return
        if name in self.parents.values():
            with pytest.raises(ConversationExistsError):
                self.log[name].delete()
            return
        self.log[name].delete()
        del self.said[name]
        self.parents.pop(name, None)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = stenolog.open(self.path, synchronous="normal")

    @invariant()
    def the_log_holds_what_the_model_holds(self) -> None:
        assert sorted(self.log) == sorted(self.said)
        for name, said in self.said.items():
            entries = list(self.log[name].entries())
            assert [e.position for e in entries] == list(range(1, len(entries) + 1))
            found = [(e.id, e.event.text) for e in entries if isinstance(e.event, UserMessage)]
            assert found == said
            assert self.log[name].state().position == len(entries)


Model.TestCase.settings = settings(max_examples=40, stateful_step_count=25, derandomize=True, deadline=None)
TestModel = Model.TestCase
