"""Data-parallel engines that step together, as the engine processes of a release do.

``rules`` says what differs between releases, ``scheduler`` holds the requests of one rank, ``rank``
is its busy loop, ``collectives`` where ranks meet. All of it is pure: the loop is a generator that
says what it does next and is told what came of it.
"""
