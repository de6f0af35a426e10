"""What a group's coordinator remembers, and what can be concluded from it."""
