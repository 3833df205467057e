"""The schemas of the served kinds: structure, defaults, validation."""
