"""Writing history: one line per event, whole or not at all, on the clock that all processes of a machine share."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path


class History:
    """A file of JSON lines that only grows; what the lines hold is said in `checker.py`."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, teller: str, /, *, at: int | None = None, **fields: object) -> None:
        """Add a line, by default of this moment."""
        line = {"is": teller, "at": time.monotonic_ns() if at is None else at, **fields}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """Nothing more happens."""
        os.close(self._file)
