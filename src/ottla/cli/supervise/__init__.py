"""Several nodes of one cluster on this machine: `ottla up --brokers`, and what `ottla node` talks to."""
