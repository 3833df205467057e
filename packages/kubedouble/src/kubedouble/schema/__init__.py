"""What the served kinds are made of: structure, defaults, validation."""
