"""Versions of records that only logs of older clusters hold. Generated: see tools/generate_records.py."""
