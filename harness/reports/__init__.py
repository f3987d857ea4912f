"""Messages to people and machines: one type for each, rendered in one place."""
