"""Every Lua script of the store: one per transition, each saying which promise it keeps.

A module here holds the scripts of the module of the same name in `agentsmith.store`, which calls them; `parts` holds
the Lua that several of them share.
"""

from __future__ import annotations
