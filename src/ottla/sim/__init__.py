"""The simulated world. world.py has hosts and virtual time, disk.py and network.py what goes wrong below a node.

scenario.py runs a real node (node.py) and its clients (workload/) through a storm of faults (chaos.py), notes what
everybody saw (history.py), and judges it (checkers.py).
"""
