"""The neutral agent stack: configurations in JSON, three kinds of agents, every call through the LLM client."""
