"""The way in: REST, tokens, problems, metrics, health."""
