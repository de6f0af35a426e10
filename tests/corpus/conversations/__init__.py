"""Conversations with a group coordinator, of several requests and clients: they go as with Apache Kafka."""
