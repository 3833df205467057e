"""Mixes of workloads on any cluster's kube-scheduler, with simulated nodes: alone, and with corewise."""
