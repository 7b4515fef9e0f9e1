"""The texts of validation errors."""
