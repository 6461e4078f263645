"""What is read is checked: strict readers, seals, hashes, folders that belong to their user."""
