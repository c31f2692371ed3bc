"""Orchestration and state: types, pool, budget, clock, trace, interfaces, errors, controller."""
