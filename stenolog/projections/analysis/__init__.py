"""Analysis of requests: the traces of an entry, the reasons for a part, the effect of another policy."""
