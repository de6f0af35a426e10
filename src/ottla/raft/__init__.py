"""The KRaft quorum. quorum.py decides, quorum_state.py remembers, node.py does it on an event loop over a RaftLog."""
