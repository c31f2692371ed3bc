"""The SuperPrompt page: a Streamlit front for :class:`ragtune.superprompt.page.session.PageSession`."""
