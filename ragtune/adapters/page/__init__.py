"""The SuperPrompt page: a Streamlit front over :class:`ragtune.adapters.page.session.PageSession`."""
