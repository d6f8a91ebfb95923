"""Importers, chats and a framework that come with stenolog, each a plugin."""
