"""Every config by name, type, default, limits and meaning: one row each, grouped by what it is about."""
