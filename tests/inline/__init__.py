"""Inline mode: the proxy against odd origins, the gate, and what a visitor meets."""
