"""Requests and answers of providers, read from recorded bytes, and the secrets in them."""
