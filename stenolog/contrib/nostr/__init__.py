"""Signed events of the Nostr protocol, as TENEX keeps them and as relays send them."""
