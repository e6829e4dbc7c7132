"""Instead of `python -m agentsmith.running.release_lease`: asks the process that forks daemons, which has imported it.

Runs by path: `python -I -S farewell_call.py ADDRESS`. Ends when the farewell is said.
"""

from __future__ import annotations

import socket
import sys

with socket.socket(socket.AF_UNIX) as line:
    line.connect("\0" + sys.argv[1])
    line.sendall(sys.stdin.buffer.read())
    line.shutdown(socket.SHUT_WR)
    line.recv(1)
