"""`python -m agentsmith` is the same as `agentsmith`."""

from __future__ import annotations

from agentsmith.cli.app import main

if __name__ == "__main__":
    main()
