"""One suite for every queue backend: what `docs/reference/queue.md` says, as tests."""
