"""Requests on the pages: their parts as lines, their facts, and the calls before and after them."""
