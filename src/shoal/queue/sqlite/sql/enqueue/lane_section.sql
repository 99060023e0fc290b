SELECT section FROM lane WHERE id = :lane
