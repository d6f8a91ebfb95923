"""What can be asked of requests: where an entry went, why a part is there, what another policy would do."""
