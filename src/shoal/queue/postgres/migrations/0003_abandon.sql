-- The leases of a dead worker can be returned: shoal.abandon. No table changes, but a new version applies the functions again.
SELECT 'a script needs a statement';
