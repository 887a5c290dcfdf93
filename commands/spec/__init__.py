"""What a command is: its declaration, its keys, its grammar, and in which versions."""
