DELETE FROM known WHERE scraper = :scraper AND key > unhex(:after) AND key <= unhex(:last)
