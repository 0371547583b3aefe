"""What Vigil remembers: SQLAlchemy tables, queries, migrations."""
