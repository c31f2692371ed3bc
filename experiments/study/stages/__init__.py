"""What each stage of the prompt pipeline gains with a language model, on a judged collection."""
