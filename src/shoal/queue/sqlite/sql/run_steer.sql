UPDATE run SET state = :state WHERE no = :run
