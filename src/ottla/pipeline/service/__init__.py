"""Pipelines as a service: specs in a compacted topic, run by workers that take over from one another."""
