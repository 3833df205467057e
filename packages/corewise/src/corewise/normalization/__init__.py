"""Normalization: which ratio a node has, and what CFS quota its CPUShare pods get. All of it pure."""
