"""The reference frontend: our client behind HTTP and gRPC, in a process of its own.

It takes the command line of the real frontend and imitates the shapes of a release that it
names, so that the black-box path of the harness can be tested with a frontend whose faults are
known: none, or exactly one mutant. What a release documents it does as that release; what a
release promises and breaks it keeps.
"""
