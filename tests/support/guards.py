"""Guards whose program is another than the product's, for what a machine does not bring about by itself."""

from __future__ import annotations

import inspect
from pathlib import Path

from agentsmith.guard import command, output, processes, program

MODULES = (command, output, processes, program)
"""All of the guard's program."""


def altered_guard(folder: Path, *changes: tuple[str, str], also: str = "") -> str:
    """The path of a guard's program with these changes of its text, and with more of it in the end."""
    texts = {Path(inspect.getfile(module)).name: inspect.getsource(module) for module in MODULES}
    for old, new in changes:
        [name] = [name for name, text in texts.items() if old in text]
        assert texts[name].count(old) == 1
        texts[name] = texts[name].replace(old, new)
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
    path = folder / Path(inspect.getfile(program)).name
    path.write_text(path.read_text() + also)
    return str(path)
