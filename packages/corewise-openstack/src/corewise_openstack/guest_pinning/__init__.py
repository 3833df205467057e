"""Which CPUs of a compute host a guest owns, and who holds which."""
