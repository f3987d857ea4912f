"""What a report tells: one document, whatever was read and whatever is written."""
