"""A conversation as one HTML file: its entries, and the request of every model call with the reasons."""
