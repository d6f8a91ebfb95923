"""Recording proxy: programs reach their provider through it, and the log gets what passes."""
