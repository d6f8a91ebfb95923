"""The stages of a request, one file each: pure functions of entries, lane and policy."""
