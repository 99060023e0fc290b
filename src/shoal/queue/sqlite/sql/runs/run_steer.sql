UPDATE run SET state = :state, reason = :reason WHERE no = :run
