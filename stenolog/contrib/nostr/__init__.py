"""Signed events of the Nostr protocol, as TENEX keeps them and relays send them."""

from .outgoing import nostr_events
from .participants import with_references

__all__ = ["nostr_events", "with_references"]
