-- Settlements list up to a hundred tasks in a row of two kilobytes, which the server would try to compress and then store apart.
ALTER TABLE shoal.done SET (toast_tuple_target = 8160);

-- Claims store their receipts themselves.
DROP FUNCTION IF EXISTS shoal.leave_receipt(uuid, boolean, bigint[]);
