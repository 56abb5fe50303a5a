"""The server process: what is started in which order, who watches it, and how all of it ends.

Main holds the listening socket, the private stores, the web workers and the background processes; nothing of it lives
longer than main (CFG-096). See docs/adr/0007-process-life.md.
"""
