"""Foreign bytes: files opened, decompressed and parsed, each within a budget."""
