"""Consumer groups of simulated clients, by both of Kafka's protocols, and what they are owed."""
