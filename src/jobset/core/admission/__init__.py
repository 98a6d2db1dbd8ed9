"""Admission of JobSets: defaulting, validation of creates and updates, the custom resource definition."""
