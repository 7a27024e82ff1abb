"""Reference scores and models that come with the package."""
