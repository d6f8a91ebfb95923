"""Tables of SQL that follow the log: a pure function of each entry, kept up to date."""
