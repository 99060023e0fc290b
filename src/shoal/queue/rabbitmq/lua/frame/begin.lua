local noted_bundles = CALL ~= '' and call('GET', P .. 'receipt:' .. CALL .. ':bundles')
