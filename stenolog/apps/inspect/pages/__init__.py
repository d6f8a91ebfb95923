"""Pages of the inspector: one module each, with what its template shows and its twin in JSON."""
