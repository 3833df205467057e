"""How often the agent names the right antagonist, on real cgroups with real antagonists."""
