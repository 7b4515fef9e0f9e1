"""Linear scores, updated with a matrix of second moments."""
