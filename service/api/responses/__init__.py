"""How answers and problems are written."""
