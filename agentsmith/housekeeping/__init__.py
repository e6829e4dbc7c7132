"""What only one process at a time does for all: passes that repair stuck tickets; and each machine's clean-up.

`leader` lists the passes and when they run. A pass answers one question (`run_once`) and counts what it did:

`dead_processes`  what is left in the lists of processes that are gone, or beside entries that are gone?
`intents`         what was decided and is not on the ticket yet?
`dead_runs`       which runs have nobody any more?
`stuck`           which tickets' labels say that somebody has them, though nobody does?
`due`             what has a waiting ticket waited for?

`sweep` is the quick pass, over Redis alone: all but the last two. `retention` is not the leader's: every machine tidies
up after itself.
"""
