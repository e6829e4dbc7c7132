"""`make pin-images`: writes deploy/images.env, in which every image of deploy/ has the digest that its tag has today.

Needs docker with buildx, and a registry that it can reach.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

DEPLOY: Final = Path(__file__).parent
_DEFAULT: Final = re.compile(r"\$\{(\w+_IMAGE):-([^}@]+)\}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def images(text: str) -> dict[str, str]:
    """The images that a compose file names, by the variable that replaces each."""
    return dict(_DEFAULT.findall(text))


def digest(image: str) -> str:
    """What the tag stands for today, for all platforms; exits with a message where nobody can tell."""
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{.Manifest.Digest}}"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"docker cannot be run ({error.strerror}); install it with buildx, and try again")
    found = done.stdout.strip()
    if done.returncode or not _DIGEST.fullmatch(found):
        sys.exit(f"no digest of {image} was found; can docker reach the registry? It says: {done.stderr.strip()}")
    return found


def main() -> None:
    """Ask for all of them, then write all of them."""
    lines = [
        f"{name}={image}@{digest(image)}\n" for name, image in images((DEPLOY / "compose.yaml").read_text()).items()
    ]
    (DEPLOY / "images.env").write_text("".join(lines))
    print("".join(lines), end="")


if __name__ == "__main__":
    main()
