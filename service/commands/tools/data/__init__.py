"""Commands that move rounds between files and a running service."""
