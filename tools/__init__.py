"""Programs for those who work on corewise: generated files, measurements, pictures."""
