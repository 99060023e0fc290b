-- The store's time in microseconds.

return digits(now)
