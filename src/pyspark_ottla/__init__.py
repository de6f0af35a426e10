"""By its name Spark finds it, and registers `format("ottla")` by itself."""

from ottla.spark.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
