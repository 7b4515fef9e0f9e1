"""Actions with features: their definition, their vectors, and their log format."""
