"""Names, reason codes, metrics, and the annotations and values that programs exchange."""
