"""Commands: a package for each family, with its records and its handlers; ``server.families`` lists them all."""
