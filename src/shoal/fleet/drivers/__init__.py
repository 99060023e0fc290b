"""What starts and stops workers for the autoscaler: one module per place where they live."""
