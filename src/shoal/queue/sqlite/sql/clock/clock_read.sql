SELECT latest, ahead FROM clock
