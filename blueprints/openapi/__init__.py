"""The description of the HTTP API as OpenAPI 3.1: what an operation can say, and the documents made of all of them.

The operations themselves stand beside their handlers (``blueprints/visitor/described.py``,
``blueprints/admin/described.py``). Not here: HTTP.
"""
