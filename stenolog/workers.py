"""Workers: processes of any number of machines run what was submitted to a log.

`submit` appends a message and wakes a worker, in one transaction; `Worker` runs a team on what was submitted,
as `stenolog worker` does. PostgreSQL needs the extra `workers`; a log in a file needs none.
"""

from .apps.workers.following import follow
from .apps.workers.queue import Queue
from .apps.workers.submitting import answer, approve, cancel, reject, submit, submit_sync
from .apps.workers.worker import Worker

__all__ = ["Queue", "Worker", "answer", "approve", "cancel", "follow", "reject", "submit", "submit_sync"]
