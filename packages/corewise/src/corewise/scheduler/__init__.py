"""The scheduler: answers kube-scheduler, as its extender."""
