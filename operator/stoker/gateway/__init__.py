"""The entry for clients: bounded queues, choice of instance, streams that survive."""
