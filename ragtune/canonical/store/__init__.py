"""Where chunks live: PostgreSQL with pgvector, and the exact in-memory reference."""
