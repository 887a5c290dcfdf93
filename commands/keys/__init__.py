"""Keys of any type: DEL, EXPIRE, SCAN, SORT, DUMP, OBJECT, and the databases."""
