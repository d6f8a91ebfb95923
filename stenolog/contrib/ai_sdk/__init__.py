"""Importer of the UI messages that the AI SDK keeps of a chat."""
