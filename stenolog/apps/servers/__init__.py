"""Servers of this machine: their sockets, and the limits that they share."""
