"""The evidence: policies x budgets x collections, with tests, tables, figures and an interactive report."""
