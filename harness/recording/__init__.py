"""Records a live session between a frontend and engines, and makes a scenario of it.

``tap`` listens at the sockets of mock engines, ``proxy`` stands between a frontend and engines of
any kind; both tell a ``sink.Sink``, which writes as they go. Afterwards ``session`` reads what was
written, ``skeleton`` makes the scenario and ``folder`` the golden vectors.
"""
