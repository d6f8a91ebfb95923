"""Reading a log in any store: handles, readers that check digests, claims and blobs."""
