"""What Sanic's manager and its workers know of each other, without a process in between.

Sanic keeps this table in a helper process of ``multiprocessing``: its death ends main, a signal to the group kills it
first, and a signal handler that asks it in the middle of another question hangs. Here main holds a plain dict, and
each process sends the changes of its own entry through one pipe. A message is shorter than PIPE_BUF, so that it is
written whole or not at all, whenever its writer is killed.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from multiprocessing.connection import Connection, Pipe
from typing import Any, Final

Entry = dict[str, Any]

IS_READY: Final = "serving"
"""Member of an entry that Sanic sets when the worker accepts connections, and ``Report.ready`` for the others."""


class StateTable(dict[str, Any]):
    """Main's side; becomes the side of a child when it is pickled, or by ``of_child`` in a forked one."""

    def __init__(self) -> None:
        super().__init__()
        self.reader, self._writer = Pipe(duplex=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return ChildStates, (dict(self), self._writer)

    def of_child(self) -> ChildStates:
        """The side of the child that calls this."""
        return ChildStates(dict(self), self._writer)

    def drain(self) -> None:
        """Take over what the processes have sent."""
        while self.reader.poll():
            name, changes = self.reader.recv()
            if isinstance(self.get(name), dict):
                self[name] = {**self[name], **changes}

    def is_ready(self, name: str) -> bool:
        """True when the process said so since it was last started."""
        entry = self.get(name)
        return isinstance(entry, dict) and bool(entry.get(IS_READY))

    def forget_ready(self, name: str) -> None:
        """To be called when the process is dead: the next one has to say it anew."""
        self.drain()
        if name in self:
            self[name] = {**self[name], IS_READY: False}


class ChildStates(MutableMapping[str, Any]):
    """A child's side: a copy as of its start, and what it writes goes to main."""

    def __init__(self, entries: dict[str, Any], writer: Connection) -> None:
        self._entries = entries
        self._writer = writer

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __setitem__(self, name: str, entry: Entry) -> None:
        old = self._entries.get(name, {})
        changes = {key: value for key, value in entry.items() if key not in old or old[key] != value}
        self._entries[name] = entry
        if changes:
            self._writer.send((name, changes))

    def __delitem__(self, name: str) -> None:
        self._entries.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class TableMaker:
    """Stands in for ``multiprocessing.Manager()`` where Sanic makes the table."""

    def __init__(self, table: StateTable) -> None:
        self._table = table

    def dict(self) -> StateTable:
        """The table."""
        return self._table

    def shutdown(self) -> None:
        """There is no process to end."""
