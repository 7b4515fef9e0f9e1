"""The candidates of a prediction, the labels of a model or the actions of a request, and the draw of one of them."""
