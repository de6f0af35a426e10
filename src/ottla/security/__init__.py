"""Principals and the authorisation point."""
