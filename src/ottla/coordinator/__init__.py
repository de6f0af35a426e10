"""Coordinators: state kept as records of an internal topic. The runtime is here; each coordinator has a package."""
