"""All fuzz families."""
