"""The queue on Redis or Valkey 7.0 or newer; `docs/decisions/0006-redis-queue.md` explains its shape."""
