"""The choice of an answer among candidates: the labels of a model, or the actions of a request."""
