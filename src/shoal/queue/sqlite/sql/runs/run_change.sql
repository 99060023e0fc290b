UPDATE run SET host_delay = :host_delay, per_host = :per_host, max_attempts = :max_attempts WHERE no = :run
