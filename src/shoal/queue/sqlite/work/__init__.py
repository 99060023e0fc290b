"""The work verbs: enqueue, claim, settle, and what time alone moves."""
