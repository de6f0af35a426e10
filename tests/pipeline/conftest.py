"""Tests of pipelines. Those that need Spark are in tests/pipeline/spark; the others need PyYAML and sqlglot only."""
