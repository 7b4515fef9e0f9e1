"""What the store holds, as values, and back."""
