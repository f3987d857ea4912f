"""A committed file of what a target is expected to come to, and what of a run departs from it."""
