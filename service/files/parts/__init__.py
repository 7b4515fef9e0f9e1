"""The parts of an exported log in a folder."""
