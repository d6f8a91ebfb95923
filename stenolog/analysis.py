"""Answers from a log: usage and cost, the author of a call, the fate of a text, differences.

Each is a pure function of entries or of requests; `usage` is a fold. The short ways are on the objects:
`conversation.explain(9)`, `conversation.timeline()`, `conversation.fold(usage)`.
"""

from .adapters.conversation.verifying.trace import Reached, Trace, trace_value
from .adapters.providers.prices import prices_of
from .domain.lanes.state import decision
from .domain.settings import members_after, settings
from .projections.analysis.advice.advise import Advice, Option, advise
from .projections.analysis.blame import Blame, BlameLink, blame
from .projections.analysis.budget import BudgetRow, budget
from .projections.analysis.cache.calls import CacheCall, cache_calls
from .projections.analysis.cache.difference import RequestDiff, diff
from .projections.analysis.certificate.certify import Certificate, certify
from .projections.analysis.drift import RoleDrift, drift
from .projections.analysis.explain import Explanation, Reason, explain, why
from .projections.analysis.knowledge import view
from .projections.analysis.provider_bill import Bill, Unexplained
from .projections.analysis.retry import (
    Case,
    Change,
    Estimate,
    Here,
    Interval,
    Judged,
    ModelQuestion,
    ModelReply,
    Pair,
    Tried,
    built,
    cases,
    interval,
    judged,
    question,
    same_calls,
    sample,
    tried,
)
from .projections.analysis.runs.comparison import Comparison, Divergence, compare
from .projections.analysis.runs.majority import Leaving, Majority, majority
from .projections.analysis.text_fate import TextFate, text_fate
from .projections.analysis.whatif import WhatIf, whatif
from .projections.context_curve import ContextCurve, context_curve
from .projections.fold import transitions
from .projections.prices import Price, Prices, cost, price_table
from .projections.views.context import Context, context, within
from .projections.views.lines import call_in_words, describe
from .projections.views.timeline import TimelineItem, changes, timeline
from .projections.views.usage import By, UsageTotals, together, usage

__all__ = [
    "Advice",
    "Bill",
    "Blame",
    "BlameLink",
    "BudgetRow",
    "By",
    "CacheCall",
    "Case",
    "Certificate",
    "Change",
    "Comparison",
    "Context",
    "ContextCurve",
    "Divergence",
    "Estimate",
    "Explanation",
    "Here",
    "Interval",
    "Judged",
    "Leaving",
    "Majority",
    "ModelQuestion",
    "ModelReply",
    "Option",
    "Pair",
    "Price",
    "Prices",
    "Reached",
    "Reason",
    "RequestDiff",
    "RoleDrift",
    "TextFate",
    "TimelineItem",
    "Trace",
    "Tried",
    "Unexplained",
    "UsageTotals",
    "WhatIf",
    "advise",
    "blame",
    "budget",
    "built",
    "cache_calls",
    "call_in_words",
    "cases",
    "certify",
    "changes",
    "compare",
    "context",
    "context_curve",
    "cost",
    "decision",
    "describe",
    "diff",
    "drift",
    "explain",
    "interval",
    "judged",
    "majority",
    "members_after",
    "price_table",
    "prices_of",
    "question",
    "same_calls",
    "sample",
    "settings",
    "text_fate",
    "timeline",
    "together",
    "trace_value",
    "transitions",
    "tried",
    "usage",
    "view",
    "whatif",
    "why",
    "within",
]
