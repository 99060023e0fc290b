local told_cargo = CALL ~= '' and call('GET', P .. 'receipt:' .. CALL .. ':river')
