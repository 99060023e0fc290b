SELECT EXISTS (SELECT 1 FROM section WHERE run = :run AND pending + delayed + leased > 0)
