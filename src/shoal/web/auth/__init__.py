"""Who may use the control room: login tokens, one-time tickets, session cookies."""
