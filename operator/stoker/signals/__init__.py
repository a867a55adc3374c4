"""Where numbers from outside the API server come from."""
