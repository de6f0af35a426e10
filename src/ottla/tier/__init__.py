"""The remote part of a log: closed segments in an object store, and what is known of them."""
