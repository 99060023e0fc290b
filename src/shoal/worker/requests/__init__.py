"""One attempt at a task, and the requests that its step sends itself."""
