"""One call of a model: the check at dispatch, its stream, its draft, and its retries."""
