"""REST, MCP and the rerank API, and what guards them."""
