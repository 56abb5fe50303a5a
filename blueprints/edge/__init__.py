"""The HTTP edge: strict reading of every request, and the hot routes served at protocol level."""
