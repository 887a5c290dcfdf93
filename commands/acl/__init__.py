"""Users and their permissions: ACL."""
