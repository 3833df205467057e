"""The offline planner: all pods placed again, under one configuration or two."""
