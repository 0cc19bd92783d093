"""The only room that knows the database: sessions, statements, schema, control stores, the embedded server."""
