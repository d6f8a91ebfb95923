"""The turn to write: one writer, its transaction, and what is then durable. Enter by `datastore`."""
