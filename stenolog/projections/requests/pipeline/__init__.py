"""The stages that make a request of entries, a file each: pure functions of entries, lane and policy."""
