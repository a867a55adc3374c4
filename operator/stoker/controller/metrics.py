"""What the operator counts about its own work (`kube` counts requests, Events and the Lease)."""

from prometheus_client import Counter, Gauge, Histogram

RECONCILES = Counter("stoker_reconcile_total", "Reconciles by result.", ["result"])
RECONCILE_SECONDS = Histogram(
    "stoker_reconcile_seconds", "Time of a reconcile.", buckets=(0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 10)
)
WATCH_EVENTS = Counter("stoker_watch_events_total", "Watch events by kind of object.", ["kind"])
QUEUE_WAITING = Gauge("stoker_workqueue_depth", "Services that wait for a worker.")
QUEUE_WORKING = Gauge("stoker_workqueue_working", "Services that are being reconciled.")
QUEUE_OLDEST_S = Gauge("stoker_workqueue_oldest_seconds", "How long the first service has been waiting.")
