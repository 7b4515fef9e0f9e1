"""Where everything that must outlast a process is kept: Redis or Valkey, nothing else."""
