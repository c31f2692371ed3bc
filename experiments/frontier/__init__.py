"""The evidence: policies x budgets x collections in one study, with tests, tables, figures and an interactive report."""
