"""HTTP archives (HAR)."""
