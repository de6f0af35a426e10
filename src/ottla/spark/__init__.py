"""Ottla, or any Kafka cluster, from PySpark: `format("ottla")`. Needs `pip install "ottla[spark]"`."""
