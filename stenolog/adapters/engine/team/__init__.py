"""A team: its start, its runs, and the visits of a worker."""
