"""What is decided about one ticket, and how its label comes to say so.

Every read-then-write of a ticket goes `lock -> read -> decide -> record in Redis -> publish on the tracker`. Whoever
wants something done about a ticket (a webhook, a poll, a person, housekeeping, a run that ended) comes through here.
"""
