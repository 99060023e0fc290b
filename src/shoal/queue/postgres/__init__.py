"""The queue on PostgreSQL 13 or newer; `docs/decisions/0005-postgres-queue.md` explains its shape."""
