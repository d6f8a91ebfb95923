"""The turn to write: one writer, its transaction, and what is durable after it. Enter by `database`."""
