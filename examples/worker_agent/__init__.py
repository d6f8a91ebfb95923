"""An agent that remembers: the pure step, limits, condensing, and workers that know what their caller knows."""
