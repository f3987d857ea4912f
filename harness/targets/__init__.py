"""What a scenario is run against, and what each target can do and show."""
