"""What all tests start from."""

import signal

# A shell starts what runs in its background without Ctrl-C, and so do its children: tests that press it need it.
signal.signal(signal.SIGINT, signal.default_int_handler)
