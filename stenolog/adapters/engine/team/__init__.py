"""Teams: their start, their runs, and the visits of a worker."""
