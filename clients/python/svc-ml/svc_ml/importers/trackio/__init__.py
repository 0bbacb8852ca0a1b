"""Projects of trackio: a database of SQLite each, with the media beside them."""
