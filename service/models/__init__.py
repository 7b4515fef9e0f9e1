"""What a model is: its definition, the kinds of its contexts and answers, its norm policy."""
