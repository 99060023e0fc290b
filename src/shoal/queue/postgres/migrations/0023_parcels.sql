-- Claims of any step get no parcels, and the parcels of a call are in one bundle: both functions are replaced. The previous version calls them, too.
SELECT;
