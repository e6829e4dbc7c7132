"""How work comes in: webhooks, polls and comments become signals, and each signal is one look at its ticket."""
