"""Downloads: files are stored in a folder or in object storage, complete or not at all."""
