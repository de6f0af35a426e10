"""What a metadata log can have wrong in it."""


class ReplayError(Exception):
    """A record contradicts those before it: the log is damaged, or a bug wrote it. The node must not go on."""
