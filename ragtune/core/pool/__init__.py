"""The candidates of one request and what is known of them."""
