"""Entries on the pages: the list and its rows, a card, the graph of lanes, the marks of the slider."""
