"""One process. What the configuration names is opened (`open`), put together (`build`), and served: `services` lists
what runs, for which role, and in which order it ends; `process` is the daemon, `foreground` one ticket at a shell."""
