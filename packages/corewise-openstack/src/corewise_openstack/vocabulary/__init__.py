"""The words of Nova and Placement: guests, resource providers, inventories, allocations."""
