-- Functions alone: a claim that finds nothing adds up a run's changes only where no lease or delayed task tells that there is work left.
SELECT;
