"""One Pod and what it requests, as manager, scheduler, agent and web read it."""
