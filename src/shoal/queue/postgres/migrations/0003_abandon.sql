-- The leases of a dead worker can be handed back: shoal.abandon. No table changes, but a new version has the functions applied again.
SELECT 'a script needs a statement';
