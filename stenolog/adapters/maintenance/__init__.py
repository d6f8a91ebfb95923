"""What a person does to a log: take claims over, erase an entry, restore a backup."""
