"""Mutants of the family ``lockstep``: faults of engines that step together, one in each file."""
