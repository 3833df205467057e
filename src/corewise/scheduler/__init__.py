"""The scheduler: answers kube-scheduler, and drives the local cluster's scheduler and the offline planner."""
