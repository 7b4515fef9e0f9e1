"""File formats for rounds."""
