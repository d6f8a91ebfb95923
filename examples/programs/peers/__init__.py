"""The same programs with the OpenAI Agents SDK and pydantic-ai, where these can do it."""
