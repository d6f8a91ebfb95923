"""Reading a log in any store: handles, checked readers, claims and blobs."""
