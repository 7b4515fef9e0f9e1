"""What a model is: its definition, the kinds of its answers, its norm policy."""
