"""The harness: scenarios, simulation, trace, invariants, targets, reports and commands."""
