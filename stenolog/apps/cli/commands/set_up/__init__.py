"""Commands on databases and shells."""
