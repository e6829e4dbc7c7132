"""The benchmark: what the product does, through its own code, beside what the same machine does without it.

Every row stands beside a raw limit that is measured in the same minute on the same Redis and the same HTTP stack. Only
the ratio of the two is worth comparing between machines.
"""

from __future__ import annotations
