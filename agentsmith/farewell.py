"""The old name of `agentsmith.running.release_lease`, which guards of the release before this one still start."""

from __future__ import annotations

from agentsmith.running.release_lease import main

if __name__ == "__main__":
    main()
