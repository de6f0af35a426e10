"""The KRaft quorum. quorum.py decides, quorum_state.py remembers, node.py does it on an event loop over a RaftLog.

docs/internals/raft.md has the picture. rpc.py and network_peers.py are the way to the other replicas.
"""
