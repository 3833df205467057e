"""What a machine's memory modules could move at most, from what firmware and EDAC drivers tell of them."""
