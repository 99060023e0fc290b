UPDATE host SET paused_until = 0 WHERE id = :host
