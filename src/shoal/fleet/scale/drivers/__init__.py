"""Drivers that start and stop workers for the autoscaler: one module per environment."""
