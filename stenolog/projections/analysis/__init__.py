"""Analysis of requests: the history of an entry, the reasons for a part, the effect of another policy."""
