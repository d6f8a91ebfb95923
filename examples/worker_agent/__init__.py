"""An agent that remembers: the pure step, limits, condensing, and workers that inherit a context."""
