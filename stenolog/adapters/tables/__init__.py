"""SQL tables that follow the log, each a pure function of entries."""
