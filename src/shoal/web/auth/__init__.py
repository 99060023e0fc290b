"""Who may use the control room: tokens, tickets, cookies."""
