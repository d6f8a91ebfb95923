"""Bills of a lane, and the rate at which its provider bills estimated tokens.

A bill is for a whole request, and a log may lack a part of it, such as the system prompt. So growth is
compared: what a request was billed more than the one before, and the estimate of what came between.
"""

from __future__ import annotations

from typing import NamedTuple

from stenolog.projections.messages.sizes import PLAIN, Rate

TRUST = 2_000
"""Estimated tokens of growth that weigh as much as what is known of a model before its first bills."""
HELD = 100_000
"""Estimated tokens of growth after which all earlier growth counts half, since a session may change."""
LEAST, MOST = 2, 4
"""A rate below 1/2 or above 4 is no rate: something else came or went."""


class Known(NamedTuple):
    """A rate, and the last bill with the lane's size then; `billed` 0: none to compare the next one with."""

    rate: Rate
    billed: int = 0
    size: int = 0


class Bills(NamedTuple):
    """The bills of a lane so far, by family of models.

    `size` is the estimate of all that the lane was shown. `response` is the foreign id of its last answer,
    which `began` at that size.
    """

    size: int = 0
    response: str = ""
    began: int = 0
    known: dict[str, Known] = {}  # noqa: RUF012 - never changed in place

    def rate(self, model: str) -> Rate:
        """Return the rate of a model's family; before its first bill that of its provider's models."""
        found = self.known.get(_family(model))
        return usual(model) if found is None else found.rate

    def with_text(self, tokens: int) -> Bills:
        """Return the bills after the lane was shown so many more estimated tokens."""
        return self._replace(size=self.size + tokens)

    def with_answer(self, response: str) -> Bills:
        """Return the bills at the beginning of an answer; a further part of one began with the first."""
        if response and response == self.response:
            return self
        return self._replace(response=response, began=self.size)

    def with_bill(self, model: str, tokens: int) -> Bills:
        """Return the bills with that of the answer that began last."""
        name = _family(model)
        last = self.known.get(name) or Known(usual(model))
        rate = grown(last.rate, tokens - last.billed, self.began - last.size) if last.billed else last.rate
        return self._replace(known={**self.known, name: Known(rate, tokens, self.began)})

    def interrupted(self) -> Bills:
        """Return the bills after something left the context: the next bill is compared with none before."""
        return self._replace(known={name: Known(known.rate) for name, known in self.known.items()})


NO_BILLS = Bills()


def grown(rate: Rate, billed: int, estimated: int) -> Rate:
    """Return a rate after growth; unchanged if the bill grew by something else."""
    if not (0 < estimated <= LEAST * billed and billed <= MOST * estimated):
        return rate
    found = Rate(rate.billed + billed, rate.estimated + estimated)
    return found if found.estimated <= HELD else Rate(*(tokens // 2 for tokens in found))


def usual(model: str) -> Rate:
    """Return the usual rate of the models of a model's provider."""
    from stenolog.projections.formats import FORMATS, api_by  # late, as below

    api = api_by("", model)
    return Rate(TRUST * FORMATS[api].billed // 100, TRUST) if api else PLAIN


def _family(model: str) -> str:
    from stenolog.projections.formats.model_families import family  # late: most programs do not need it

    return family(model)
