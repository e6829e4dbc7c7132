"""The coding ticket of the demo: a scripted agent whose work takes two runs, and the pipeline around it.

The agent does the first half and then never ends: it is the one whose consumer gets killed. What it did until then was
pushed as a checkpoint, so the next run finds the first half on the branch, adds the second, and proposes both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

TRIGGER: Final = "agent-smith:implement"
PIPELINE: Final = "implement"
TITLE: Final = "Greet people by name"
FILE: Final = "greeting.txt"
WHOLE: Final = "Hello,\nworld!\n"
_CHECKPOINT: Final = "300ms"

_AGENT: Final = f"""\
# A scripted coding agent: takes its prompt on standard input, works on the files here, and says what it did.
note() {{ printf '%s %s %s\\n' "$1" "$AGENTSMITH_RUN_ID" "$2" >> "$HOME/history"; }}
note begin $$
cat > /dev/null
if [ -e {FILE} ]; then
  printf 'world!\\n' >> {FILE}
  echo 'The greeting was half done; now it is whole.'
else
  printf 'Hello,\\n' > {FILE}
  echo '::progress half of the greeting'
  sleep 600 & note child $!
  wait
fi
note end $?
"""


def settings(folder: Path) -> dict[str, Any]:
    """What the configuration says about the coding ticket; writes the agent's script into the folder."""
    script = folder / "agent.sh"
    script.write_text(_AGENT)
    return {
        "agents": {"scripted": {"command": ["sh", str(script)]}},
        "run": {"checkpoint_every": _CHECKPOINT},
        "pipelines": {
            PIPELINE: {
                "steps": [
                    "checkout",
                    {"agent": "scripted"},
                    {"verify": f"grep -q world {FILE}"},
                    "commit",
                    "push",
                    "pull_request",
                ]
            }
        },
    }
