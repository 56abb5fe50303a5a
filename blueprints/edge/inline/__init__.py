"""Inline mode at the edge: what is answered on an inline host, and the forwarding of everything else."""
