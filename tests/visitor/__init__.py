"""Tests of the visitor's side: use cases and routes on real stores."""
