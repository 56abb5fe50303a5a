"""Inline mode's rules without I/O: hosts, the bypass, what is forwarded, how an origin's answer is read."""
