"""Forms of a report: a page, and texts for other programs."""
