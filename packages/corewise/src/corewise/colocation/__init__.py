"""Offline pods without rewriting manifests: what profiles and marks make of a new pod. Pure."""
