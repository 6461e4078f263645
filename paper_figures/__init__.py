"""From scores to pictures: each figure's data, picture and words."""
