"""Making a run: what is loaded into the framework's process (`inside`) and what launches and watches it (`outside`)."""
