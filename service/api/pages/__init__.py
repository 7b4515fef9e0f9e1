"""The pages that the service shows in a browser."""
