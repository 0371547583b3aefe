"""Reaching a node: SSH or a local process, the container prefix, framed calls, checks."""
