"""Strict readers of users' configuration: every problem is reported with its line and column."""
