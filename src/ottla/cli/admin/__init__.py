"""What commands ask of a cluster: a session, and the questions by what they are about."""
