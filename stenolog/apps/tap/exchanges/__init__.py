"""Exchanges with a provider: requests and answers read from recorded bytes, and the secrets in them."""
