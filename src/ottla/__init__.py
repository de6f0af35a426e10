"""Ottla: Apache Kafka's system, written in Python."""

__version__ = "0.1.0"
