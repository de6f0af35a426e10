"""Data pipelines on the log, run by Spark: a spec in YAML, SQL, and where needed a Python function."""
