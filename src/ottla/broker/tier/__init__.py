"""The remote tier at work in a broker: who copies, who deletes, and how readers get what is no longer on this disk."""
