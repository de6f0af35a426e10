"""Frames, headers, codec; the server side and the client side of a connection."""
