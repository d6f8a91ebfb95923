"""Model calls: check at dispatch, stream, draft and retries."""
