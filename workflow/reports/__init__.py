"""What a study will do, does and has done, for its user."""
