"""`make histories`: random histories of many clients on one real store, and a judge of what it granted."""
