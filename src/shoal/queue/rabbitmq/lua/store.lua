-- The name of this store, which keeps its broker queues apart from those of other stores. ARGV  4 a name if it has none

call('HSETNX', P .. 'meta', 'store', ARGV[4])
return call('HGET', P .. 'meta', 'store')
