"""What the platforms' webhook readers share: comparing secrets."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from agentsmith.domain.webhook import BadSignature


def check_hmac(secrets: Sequence[str], body: bytes, signature: str | None, *, prefix: str = "sha256=") -> None:
    """Raise BadSignature unless one of the secrets signs the body; takes the same time for every wrong one."""
    given = (signature or "").removeprefix(prefix).encode("utf-8", "replace")
    genuine = False
    for secret in secrets:
        wanted = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode()
        genuine |= hmac.compare_digest(wanted, given)
    if not signature or not signature.startswith(prefix) or not genuine:
        raise BadSignature("the signature is missing or wrong")


def same_secret(secrets: Sequence[str], given: str | None) -> bool:
    """Whether `given` is one of the secrets; an empty or missing one never is."""
    seen = (given or "").encode("utf-8", "replace")
    found = False
    for secret in secrets:
        found |= hmac.compare_digest(secret.encode(), seen)
    return bool(given) and found
