"""Commands that run agents and servers, and record other programs."""
