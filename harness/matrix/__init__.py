"""The conformance matrix: scenarios × frontends, what each cell says, and what is kept of it."""
