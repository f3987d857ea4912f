"""Help for who writes scenarios: new ones from templates, what one does in prose, runs on save."""
