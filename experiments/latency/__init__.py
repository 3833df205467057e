"""What offline work costs an online service: measured with an open-loop service in C on real cgroups."""
