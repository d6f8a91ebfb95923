"""Recording of a tap: the process that turns a journal's exchanges into entries of conversations."""
