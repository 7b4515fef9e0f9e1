"""The binary formats of stored predictions and rounds."""
