"""What a run leaves behind: files, figures, terminal tables and MLflow runs."""
