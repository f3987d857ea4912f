"""What reports are made from: results of a run, a matrix, failure files."""
