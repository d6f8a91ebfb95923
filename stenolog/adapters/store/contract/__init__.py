"""Contract of a store: the port that the log calls, its values, and what databases share."""
