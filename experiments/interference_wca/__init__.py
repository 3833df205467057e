"""WCA's 19 workloads on a mixed cluster: who is placed where, by default and by memory bandwidth."""
