"""The raft core alone, many of it, in one place: virtual time, a network and disks that fail, and checks of it all.

world.py has time and the network, member.py one replica that carries out effects, storage.py what it keeps over a
crash. storm.py decides what goes wrong, checks.py what must hold all the same, transcript.py tells the story.
"""
