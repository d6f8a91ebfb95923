"""Pages of the inspector: a module each, with the data of its template and its twin in JSON."""
