"""The burst experiment: sixty pods in one window of the metrics, and how counterweights keep them apart."""
