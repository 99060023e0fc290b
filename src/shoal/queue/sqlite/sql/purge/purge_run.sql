DELETE FROM run WHERE no = :run
