"""Storage of everything that must outlive a process, in Redis or Valkey."""
