"""Segments, indexes, producer state, leader epochs, recovery, retention: one log and all of them."""
