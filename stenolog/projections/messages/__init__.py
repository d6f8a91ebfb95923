"""Values of requests, below the formats of providers: messages, sizes, quotations, ids and JSON fields."""
