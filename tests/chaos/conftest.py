"""A migrated schema."""

from __future__ import annotations

from tests.journal.conftest import postgres as postgres
