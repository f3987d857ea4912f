"""Makes a failure small: fewest departures from FIFO first, then the scenario itself.

Only the same violation counts: the same invariant, or the same step that did not see what it
expects. Every candidate is played again; nothing is assumed to go on failing.
"""
