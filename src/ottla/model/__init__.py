"""Plain names and values: topics, offsets, epochs, errors, config definitions."""
