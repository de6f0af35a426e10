"""Benches of Ottla beside Apache Kafka, in the same run: `python -m bench.run`."""
