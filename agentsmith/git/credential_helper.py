"""Git's credential helper: fetches the answer for this one question over a socket that only our own git may use.

Started by git, by path: standard library only, nothing of ours. It never holds a credential for longer than it takes
to pass it on, and knows none itself; `credentials.py` is the other end.
"""

from __future__ import annotations

import json
import socket
import sys


def main() -> int:
    """`credential_helper.py SOCKET get|store|erase`, with git's question on stdin."""
    path, operation = sys.argv[1], sys.argv[2]
    fields = dict(line.rstrip("\n").partition("=")[::2] for line in sys.stdin if "=" in line)
    question = {"op": operation, "protocol": fields.get("protocol", ""), "host": fields.get("host", "")}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(30)
        channel.connect(path)
        channel.sendall(json.dumps(question).encode() + b"\n")
        answer = b""
        while chunk := channel.recv(65536):
            answer += chunk
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
