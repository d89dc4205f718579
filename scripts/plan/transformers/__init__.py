"""What is predicted of the transformers backend."""
