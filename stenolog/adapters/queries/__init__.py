"""What a conversation is asked for: folds, requests, outputs, forks; checks of the arguments, and caches."""
