"""The contract: what users write and read. Imports nothing else of Stoker."""
