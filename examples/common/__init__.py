"""What the examples share: their sites, their queues, and how a run is compared with what it must give."""
