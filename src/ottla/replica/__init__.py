"""A partition's leader side, and requests that wait."""
