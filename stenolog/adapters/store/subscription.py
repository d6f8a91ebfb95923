"""Subscriptions of the eventsourcing library to a log."""

from __future__ import annotations

from eventsourcing.persistence import ListenNotifySubscription

from .recorder import LogRecorder


class LogSubscription(ListenNotifySubscription[LogRecorder]):
    """A subscription that a log's own news of commits wakes."""

    def _loop_on_pull(self) -> None:
        # From before the first look. The library's own subscriptions begin to listen after it. There an entry
        # that is recorded in between waits for the next append.
        with self._recorder.listening(self._has_been_notified.set):
            super()._loop_on_pull()
