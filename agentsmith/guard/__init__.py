"""The guard of a run: a small process that owns the run's processes and ends them when their consumer is gone.

`program` is what the guard process runs, `spawner` the warm process that forks guards, `spawn` asks it for one, and
`client` is the guard as the consumer sees it.
"""
