"""Recording proxy: programs reach their provider through it, and their exchanges become entries of the log."""
