"""The cluster's metadata.

Records (records/, record_codec.py), the image they add up to (image.py, delta.py), the controller that decides on new
ones (controller/), and the port through which everything else reaches it (controller_port.py).
"""
