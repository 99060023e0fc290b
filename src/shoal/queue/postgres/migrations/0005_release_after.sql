-- A released task may wait a while: shoal.finish. No table changes, but a new version has the functions applied again.
SELECT 'a script needs a statement';
