"""The controller: decides which records answer a request. Pure: no clock, no disk, no waiting.

controller.py hands a request (requests.py) to the function that decides on it; local_controller.py, one level up,
appends the records and parks the reply until they are committed.
"""
