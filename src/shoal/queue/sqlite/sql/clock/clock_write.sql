UPDATE clock SET latest = :latest, ahead = :ahead
