"""The KRaft quorum; one voter for now."""
