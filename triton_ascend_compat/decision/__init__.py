"""What becomes of a misplaced key: the decision, and the data that it rests on."""
