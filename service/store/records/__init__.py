"""The bytes of predictions and of rounds."""
