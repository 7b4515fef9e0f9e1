"""What a prediction chooses among: the labels of a model, or the actions of a request; and how one of them is drawn."""
