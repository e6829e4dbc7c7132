"""One process: everything is built here once, its services are started, watched, reloaded, and ended in order."""
