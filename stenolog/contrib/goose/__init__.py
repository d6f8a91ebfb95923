"""Sessions of goose: the files of earlier releases, its database, and its export."""
