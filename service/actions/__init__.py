"""Actions with features: how a model describes them, their vectors, and what the log keeps of them."""
