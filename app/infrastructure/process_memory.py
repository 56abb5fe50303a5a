"""Memory of this instance's processes, as the kernel tells (OBS-080)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_STORES: Final = ("valkey-server", "postgres", "unshare")
"""Private stores are children of main too; their memory is theirs."""


def resident_bytes(main_pid: int) -> int:
    """Resident memory of main and its children, without private stores; 0 where the kernel does not say."""
    pages = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            if int(folder.name) == main_pid or (int(rest.split()[1]) == main_pid and not name.startswith(_STORES)):
                pages += int((folder / "statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            continue  # it ended in between
    return pages * os.sysconf("SC_PAGE_SIZE")
