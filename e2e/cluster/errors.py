"""What stops a command of the embedded cluster, as one sentence for the person who ran it."""


class ClusterError(Exception):
    """What is wrong, where, and what to change. Printed without a traceback."""
