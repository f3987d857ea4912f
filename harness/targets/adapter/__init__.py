"""Target ``adapter``: any client or frontend behind a line protocol (``docs/adapter.md``)."""
