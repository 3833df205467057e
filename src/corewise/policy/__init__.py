"""What users write and read: names, reason codes, configuration. The one table behind docs and code."""
