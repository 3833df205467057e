"""What users write, read strictly: every problem is reported with its line and column."""
