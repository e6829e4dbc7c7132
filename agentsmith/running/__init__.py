"""How a ticket is worked on: a consumer takes requests off the queue and carries each out under a lease."""
