"""CrewAgent's conversations: a folder with an `index.json`, and one `messages.json` for each."""
