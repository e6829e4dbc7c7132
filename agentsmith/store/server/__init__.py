"""The embedded server: a real Redis server that agentsmith starts itself where no `redis.url` is configured.

Begin with `embedded`: one server per data directory. The first process on the directory is the server's keeper and
starts it; others join and use it. It dies with its keeper, even by kill -9, and whoever of those that joined gets the
keeper's lock first starts it again on the same data. A write that was acknowledged survives that (P2).

| Module     | Question that it answers                                                                          |
|------------|---------------------------------------------------------------------------------------------------|
| `embedded` | Who starts the server, who joins, and what happens when it ends?                                  |
| `home`     | Where do its socket, data, log and locks lie, and who may reach them?                             |
| `process`  | How is one run of it started, and how does it end?                                                |
| `binary`   | Which program is run?                                                                             |
| `watchdog` | What ends the server when its keeper is gone? (A program of its own, and the server's own parent) |
"""

from __future__ import annotations
