"""Recording of a tap: the process that makes entries of conversations of the exchanges in a journal."""
