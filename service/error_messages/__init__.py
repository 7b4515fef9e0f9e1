"""The texts of errors about invalid requests."""
