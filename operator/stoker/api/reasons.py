"""Every word that Stoker says about the state of a service, and what a person should do about it.

Condition types and reasons, event reasons, verdicts, scaling reasons and the classes of a
container's end stand here once. Code uses the members, `docs/conditions.md` is generated from them
(`make crds`), and messages may end with a member's `what_to_do`.

No value stands in two enums. A condition that has a verdict, a scaling reason or a termination
class for its reason uses that member; an event that tells of a condition uses the condition's
reason. One enum for all was rejected: the place where a word may be used would not be typed.
"""

from enum import StrEnum


class Explained(StrEnum):
    """A word in an object's status, with one sentence of meaning and one of advice."""

    meaning: str
    what_to_do: str

    def __new__(cls, value: str, meaning: str, what_to_do: str) -> "Explained":
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.what_to_do = what_to_do
        return member


_NOTHING = "Nothing."
_WAIT = "Wait; the message says how far it is."


class ConditionType(Explained):
    """Types of `status.conditions`. All are good when True, but for the last two (kstatus)."""

    READY = (
        "Ready",
        "The service answers requests, or is scaled to zero on purpose and answers when asked.",
        "If it is not True, read its reason and message; `Stalled` says whether waiting can help.",
    )
    MODEL_FITS = (
        "ModelFits",
        "The weights and one request of the full context length fit into the accelerators of an instance.",
        "If it is False, lower `model.contextLength`, quantize, or raise `accelerator.count`.",
    )
    WEIGHTS_CACHED = (
        "WeightsCached",
        "Enough nodes hold verified weights for every replica that is wanted.",
        "If it is False, see `status.cache` and the `NodeCache` objects; instances fetch for themselves.",
    )
    AVAILABLE = (
        "Available",
        "At least `scaling.minReplicas` instances (or the pinned `replicas`) are Ready.",
        "If it is False, read `InstancesHealthy` and `CapacityAvailable` for the cause.",
    )
    ROLLED_OUT = (
        "RolledOut",
        "The revision of the present spec gets all the traffic.",
        "If it is False, read its reason: a rollout is under way, paused, rolled back or cannot go on.",
    )
    SCALING_ACTIVE = (
        "ScalingActive",
        "The scaler has the numbers it needs and decides the replicas.",
        "If it is False, the replicas are pinned or the signals are missing; the reason says which.",
    )
    CAPACITY_AVAILABLE = (
        "CapacityAvailable",
        "The cluster has accelerators for every replica that is wanted.",
        "If it is False, add nodes, free accelerators, or name more `accelerator.alternatives`.",
    )
    INSTANCES_HEALTHY = (
        "InstancesHealthy",
        "No instance crashes, is stuck, or lacks its image or weights.",
        "If it is False, the message names each pod with its cause and what to change.",
    )
    RECONCILING = (
        "Reconciling",
        "Stoker is bringing the cluster to what the spec says; present only while True.",
        "Wait.",
    )
    STALLED = (
        "Stalled",
        "Stoker cannot come nearer to the spec without help; present only while True.",
        "Do what its message says; waiting alone will not help.",
    )


class Reason(Explained):
    """Reasons of conditions that are not already a verdict, a scaling reason or a termination class."""

    # Ready, Available
    SERVING = ("Serving", "Every wanted instance of the serving revision is Ready.", _NOTHING)
    SERVING_BELOW_WANTED = (
        "ServingBelowWanted",
        "The service answers, with fewer Ready instances than wanted.",
        "Read `InstancesHealthy` and `CapacityAvailable` for what holds up the rest.",
    )
    NO_READY_INSTANCE = (
        "NoReadyInstance",
        "Instances are wanted and none is Ready, so requests fail or wait.",
        "Read `InstancesHealthy` and `CapacityAvailable` for the cause.",
    )
    SCALED_TO_ZERO = (
        "ScaledToZero",
        "No instance is wanted now; the service is as it should be.",
        "Nothing; set `replicas` or `scaling.minReplicas` to 1 or more to keep one warm.",
    )
    # any condition
    INVALID_SPEC = (
        "InvalidSpec",
        "The spec says something that Stoker cannot do; what served before goes on serving.",
        "Change the field that the message names.",
    )
    NAME_TAKEN = (
        "NameTaken",
        "An object with the name of one of the service's children exists and belongs to somebody else.",
        "Delete or rename the object that the message names, or give the InferenceService another name.",
    )
    APPLY_FAILED = (
        "ApplyFailed",
        "The API server refused, or did not answer, a change that Stoker made; it will be tried again.",
        "If it lasts, look for a quota, an admission policy or missing permissions in the message.",
    )
    NOT_YET_KNOWN = ("NotYetKnown", "Stoker has not looked at this yet.", "Wait a few seconds.")
    DELETING = ("Deleting", "The service is being deleted; its instances drain.", _WAIT)
    # ModelFits
    FITS = ("Fits", "The model fits; `status.capacity` shows the arithmetic.", _NOTHING)
    NOT_ESTIMATED = (
        "NotEstimated",
        "Stoker has no estimate for this model on this accelerator.",
        "Nothing; the first instance that starts measures it.",
    )
    UNKNOWN_ACCELERATOR = (
        "UnknownAccelerator",
        "`accelerator.type` is not in Stoker's catalogue, so its memory is not known.",
        "Use a name from the catalogue, or go on: the first instance that starts measures it.",
    )
    READING_CONFIG = (
        "ReadingConfig",
        "The config of the model is being read, to see whether it fits before a pod is made.",
        "Wait; after 20 seconds at most the service goes on without it.",
    )
    CONFIG_UNREADABLE = (
        "ConfigUnreadable",
        "The files that say how large the model is cannot be read; the service goes on without an estimate.",
        "Nothing, as it is tried again and the first instance measures it; the message has the cause.",
    )
    # WeightsCached
    CACHED = ("Cached", "Enough nodes hold the verified weights.", _NOTHING)
    FETCHING = ("Fetching", "Nodes are fetching the weights.", _WAIT)
    PREFETCH_OFF = (
        "PrefetchOff",
        "Weights are not put on nodes in advance; each instance fetches its own.",
        "Nothing, or set `cache.prefetch: true` and run the node agent.",
    )
    DOES_NOT_FIT_DISK = (
        "DoesNotFitDisk",
        "The weights are larger than the cache budget of every node.",
        "Raise the node agent's disk budget, or quantize the model.",
    )
    # RolledOut
    UP_TO_DATE = ("UpToDate", "The revision of the present spec gets all the traffic.", _NOTHING)
    ROLLING_OUT = ("RollingOut", "A new revision starts or takes over step by step.", _WAIT)
    VERIFYING = (
        "Verifying",
        "The first instance of a new revision is Ready and must state the right model version and digest.",
        _WAIT,
    )
    WRONG_VERSION = (
        "WrongVersion",
        "An instance of the new revision states another model version or digest, so it gets no traffic.",
        "Compare `model.revision` and `model.sha256` with the numbers in the message.",
    )
    PAUSED = ("Paused", "`rollout.paused` holds the rollout where it is.", "Set `rollout.paused: false`.")
    ROLLED_BACK = (
        "RolledBack",
        "The new revision was worse than the old one, or never Ready, and has no traffic any more.",
        "Read both numbers in the message, change the spec; the same spec is not tried again.",
    )
    PROGRESS_DEADLINE_EXCEEDED = (
        "ProgressDeadlineExceeded",
        "A new revision has had no Ready instance for longer than the deadline; the old one goes on.",
        "Read `InstancesHealthy` for the cause; fix the spec, or apply the last good one again.",
    )
    WAITING_FOR_WEIGHTS = (
        "WaitingForWeights",
        "The new revision starts when enough nodes hold its weights.",
        "Wait; see `status.cache`.",
    )
    # InstancesHealthy
    REFERENCE_MISSING = (
        "ReferenceMissing",
        "A Secret or ConfigMap that an instance refers to, or a key in it, does not exist.",
        "Create it in the namespace of the service, or correct its name in the spec.",
    )
    EVICTED = (
        "Evicted",
        "A node put an instance out, usually for lack of memory or disk; another one is started.",
        "If it happens again, set `podTemplate.resources.requests` to what an instance really uses.",
    )
    # CapacityAvailable
    SUFFICIENT = ("Sufficient", "Every wanted instance has its accelerators.", _NOTHING)
    QUOTA_EXCEEDED = (
        "QuotaExceeded",
        "A ResourceQuota of the namespace refuses more instances.",
        "Raise the quota that the message names, or lower `scaling.maxReplicas`.",
    )
    POD_REFUSED = (
        "PodRefused",
        "An admission policy of the cluster refuses the instance's pods.",
        "Change `podTemplate` or the policy that the message names.",
    )


class EventReason(Explained):
    """Reasons of Events that tell of something done; what became of it is in a condition."""

    REVISION_CREATED = (
        "RevisionCreated",
        "The spec changed so that new pods are needed; a new revision starts.",
        _NOTHING,
    )
    REVISION_SERVING = ("RevisionServing", "A revision took over the traffic.", _NOTHING)
    REVISION_REMOVED = (
        "RevisionRemoved",
        "A revision that is superseded, or was never used, is deleted; its instances drain.",
        _NOTHING,
    )
    SCALED = ("Scaled", "The number of wanted replicas changed; the message says from, to and why.", _NOTHING)
    DRIFT_REPAIRED = (
        "DriftRepaired",
        "Somebody changed or deleted an object that Stoker owns, and it was put back.",
        "Change the InferenceService instead; `podTemplate` reaches most of the pod.",
    )
    INSTANCE_FAILED = (
        "InstanceFailed",
        "A container of an instance ended; the message has the class and the fix.",
        "Do what the message says; Kubernetes restarts the instance meanwhile.",
    )
    RECOVERED = ("Recovered", "What an earlier Warning told of is over.", _NOTHING)


class Verdict(Explained):
    """What is wrong with a service as a whole, from all its pods, events, cache and engine state."""

    HEALTHY = ("Healthy", "All wanted instances serve.", _NOTHING)
    STARTING = ("Starting", "Instances are starting as expected; the message has stage and time.", _WAIT)
    WAITING_FOR_NODE = (
        "WaitingForNode",
        "An instance cannot be scheduled; the message says what is missing on every node.",
        "Add a node that has it, free one, or wait if a node autoscaler is at work.",
    )
    SHORT_OF_CAPACITY = (
        "ShortOfCapacity",
        "Requests queue, all instances are full, and no more may or can be started.",
        "Raise `scaling.maxReplicas`, add accelerators, or let less traffic in.",
    )
    STUCK = (
        "Stuck",
        "An engine has requests running and generates no token; it is restarted.",
        "If it happens again, keep the pod's log and report it to the engine's project.",
    )
    CRASHING = (
        "Crashing",
        "Containers of an instance end again and again; the message has the class and the pods.",
        "Do what the class asks for.",
    )
    IMAGE_UNAVAILABLE = (
        "ImageUnavailable",
        "An image cannot be pulled.",
        "Check the image's name and tag, the registry, and the pull secrets.",
    )
    WEIGHTS_UNAVAILABLE = (
        "WeightsUnavailable",
        "The weights cannot be fetched or are not what was asked for.",
        "Check `model.uri`, `model.revision`, `model.sha256` and `model.credentialsSecret`.",
    )
    DOES_NOT_FIT = (
        "DoesNotFit",
        "The model does not fit into the accelerators of an instance.",
        "Use the context length that the message names, quantize, or raise `accelerator.count`.",
    )


class ScalingReason(Explained):
    """Why the scaler wants this number of replicas (`status.scaling.reason`)."""

    DEMAND = ("Demand", "As many as the offered work needs.", _NOTHING)
    HEADROOM = ("Headroom", "More than the work needs now, so that a burst finds a warm instance.", _NOTHING)
    BACKLOG = ("Backlog", "More, to work off the requests that wait.", _NOTHING)
    HOLD = ("Hold", "Fewer would do, but the need may come back within the holding time.", _NOTHING)
    FLOOR = ("Floor", "No more than `scaling.minReplicas` and the warm replicas are needed.", _NOTHING)
    SCHEDULE = ("Schedule", "An entry of `scaling.schedule` asks for this many.", _NOTHING)
    CAPPED = (
        "Capped",
        "More are needed than `scaling.maxReplicas` allows.",
        "Raise `scaling.maxReplicas`, or accept that requests wait or are refused.",
    )
    PINNED = (
        "Pinned",
        "`spec.replicas` sets the number; the scaler is off.",
        "Remove `replicas` to let the scaler decide.",
    )
    NO_SIGNAL = (
        "NoSignal",
        "There are no load numbers, so the replicas stay as they are.",
        "See that requests go through the gateway, and that it is reachable from the operator.",
    )


class TerminationClass(Explained):
    """Why a container of an instance ended, as it says in its termination message."""

    WEIGHTS_MISSING = (
        "WeightsMissing",
        "The source has no such model, revision or file (404).",
        "Correct `model.uri` or `model.revision`.",
    )
    WEIGHTS_FORBIDDEN = (
        "WeightsForbidden",
        "The source refused the credentials, or asks for some (401, 403).",
        "Name a Secret with valid credentials in `model.credentialsSecret`, and accept the model's licence.",
    )
    WEIGHTS_CORRUPT = (
        "WeightsCorrupt",
        "The fetched files do not have the digest that was asked for, or that the source states.",
        "Compare `model.sha256` with the digest in the message; do not serve these weights.",
    )
    WEIGHTS_UNREACHABLE = (
        "WeightsUnreachable",
        "The source did not answer: name resolution, network, or an error of its own (5xx).",
        "Check that pods can reach the host that the message names; it is tried again.",
    )
    SOURCE_NOT_ALLOWED = (
        "SourceNotAllowed",
        "The address of the source, or a path inside it, is one that Stoker does not fetch from.",
        "Use a public address, or allow cluster-internal sources in the operator's settings.",
    )
    DISK_FULL = (
        "DiskFull",
        "The node has no room for the weights.",
        "Free disk on the node, or use one with more; the message has both numbers.",
    )
    BAD_ARGUMENTS = (
        "BadArguments",
        "The engine does not know an argument, or refuses its value.",
        "Correct `engine.args`; the message names the nearest argument that exists.",
    )
    OUT_OF_MEMORY = (
        "OutOfMemory",
        "The accelerator or the container ran out of memory.",
        "Lower `model.contextLength` or the engine's concurrency, or give it more memory.",
    )
    ENGINE_CRASHED = (
        "EngineCrashed",
        "The engine ended by itself, for a reason that fits no other class.",
        "Read the engine's last words in the message and in the log of the previous container.",
    )
    ENGINE_STUCK = (
        "EngineStuck",
        "The engine had requests running and generated no token for longer than the bound.",
        "If it happens again, keep the log and report it to the engine's project.",
    )
    MODEL_UNSUPPORTED = (
        "ModelUnsupported",
        "The engine does not know the model's architecture, quantization or file format.",
        "Use an engine image that supports it, or another form of the model.",
    )


VOCABULARY: tuple[type[Explained], ...] = (
    ConditionType,
    Reason,
    Verdict,
    ScalingReason,
    TerminationClass,
    EventReason,
)
"""Every enum of this module, in the order of `docs/conditions.md`."""
