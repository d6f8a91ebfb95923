"""What a model is told of a tool: made of functions, and of the dictionaries that providers take."""
