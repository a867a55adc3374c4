"""A model registry to test against: files over HTTPS, and every way in which a registry fails."""
