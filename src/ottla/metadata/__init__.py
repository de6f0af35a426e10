"""Metadata records, the image and its deltas, the controller."""
