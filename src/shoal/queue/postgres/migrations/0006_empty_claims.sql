-- Functions only: a claim that finds nothing sums a run's deltas only if no lease or delayed task shows that there is work left.
SELECT;
