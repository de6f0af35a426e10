"""One file for each API."""
