"""The SuperPrompt page: a Streamlit front over :class:`ragtune.superprompt.page.session.PageSession`."""
