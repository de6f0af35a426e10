"""Compaction: what may be cleaned, the work itself in a process of its own, and the swap of what it made."""
