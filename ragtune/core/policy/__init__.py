"""Tools that estimators, acquisitions and schedulers share."""
