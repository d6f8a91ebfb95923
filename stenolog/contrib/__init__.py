"""Extensions that come with stenolog: importers, chats and a framework, each a plugin like anybody's own."""
