"""The tool behind which an agent works, as a team sees it: whatever that agent runs in."""

from __future__ import annotations

from abc import abstractmethod

from stenolog.adapters.tools.base import BaseTool

from .agent import Agent
from .options import Options


class WorkerTool(BaseTool):
    """A tool whose calls the agent `worker` answers; it may cost as much as that agent does."""

    worker: Agent

    @abstractmethod
    def under(self, caller: Agent, options: Options) -> BaseTool:
        """Return the same for a caller whose limits it shares, with its team's options.

        Raises `CallerError`.
        """
