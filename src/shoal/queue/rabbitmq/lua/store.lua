-- The name of this store, by which its queues are told from those of others. ARGV  4 a name if it has none

call('HSETNX', P .. 'meta', 'river', ARGV[4])
return call('HGET', P .. 'meta', 'river')
