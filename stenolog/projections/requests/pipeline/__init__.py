"""The stages of a request, a file each: pure functions of entries, lane and policy."""
