"""Old place of the services, the command line and the frameworks' components; goes with the next release."""
