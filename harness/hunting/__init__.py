"""The hunt for mutants: which scenario and which schedule shows each of them."""
