"""A cluster for `reconcile`: it carries out a plan as the API server and its controllers would.

Pure, and as small as the questions that the tests ask: applied objects get what the server adds,
Deployments get pods, pods become Ready unless a test says otherwise, and say which revision they are.
"""

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from stoker.api import names
from stoker.api.reasons import Reason
from stoker.api.spec import InferenceServiceSpec
from stoker.core.conditions import find
from stoker.core.config import Config
from stoker.core.model import Apply, InstanceReport, ModelReading, Observed, Refusal
from stoker.core.reconcile import reconcile
from stoker.core.revision import name_revision

CONFIG = Config(
    stoker_image="stoker:1", serving_image="stoker-serving:1", serving_image_cpu="stoker-serving-cpu:1"
)
START = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
DIGEST = "sha256:" + "ab" * 32
NOT_READ = Refusal(reason=Reason.CONFIG_UNREADABLE, message="the source did not answer")


def a_spec(**fields):
    spec = {"model": {"uri": "hf://Qwen/Qwen2.5-7B-Instruct"}, "accelerator": {"type": "nvidia-l40s"}}
    return spec | fields


def a_service(spec=None, *, name="chat", **metadata):
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name, "namespace": "prod", "uid": "uid-1", "generation": 1, **metadata},
        "spec": spec if spec is not None else a_spec(),
    }


class Cluster:
    """One service and its children, at a moment that moves on by hand."""

    def __init__(self, service=None, *, config=CONFIG):
        self.service = service or a_service()
        self.config = config
        self.now = START
        self.children = {}
        self.pods = {}
        self.reports = {}
        self.never_ready = set()
        """Revisions whose pods do not become Ready."""
        self.without_progress = set()
        """Revisions whose Deployment has passed its progress deadline."""
        self.silent = set()
        """Revisions whose pods do not answer on their probe port."""
        self.answer = NOT_READ
        """What reading the files of the wanted model gave; None while they are being read."""
        self.corrections = {}
        self.plans = []

    @property
    def status(self):
        return self.service.get("status", {})

    @property
    def deployments(self):
        return self._of_kind("Deployment")

    @property
    def selected(self):
        (service,) = self._of_kind("Service").values()
        return service["spec"]["selector"][names.REVISION_LABEL]

    @property
    def wanted(self):
        """Name of the revision that the spec asks for."""
        try:
            spec = InferenceServiceSpec.model_validate(self.service["spec"])
        except ValidationError:
            return ""
        return name_revision(spec, service_name=self.service["metadata"]["name"])

    def condition(self, type_):
        found = find(self.status["conditions"], type_)
        return (found["status"], found["reason"]) if found else None

    def message(self, type_):
        return find(self.status["conditions"], type_)["message"]

    def edit(self, **fields):
        """The user applies another spec."""
        self.service["spec"] = {**self.service["spec"], **fields}
        self.service["metadata"]["generation"] += 1

    def observe(self):
        def of(kind):
            return tuple(copy.deepcopy(list(self._of_kind(kind).values())))

        return Observed(
            service=copy.deepcopy(self.service),
            deployments=of("Deployment"),
            pods=tuple(copy.deepcopy(list(self.pods.values()))),
            services=of("Service"),
            disruption_budgets=of("PodDisruptionBudget"),
            service_accounts=of("ServiceAccount"),
            config_maps=of("ConfigMap"),
            reports=dict(self.reports),
            reading=ModelReading(revision=self.wanted, answer=self.answer) if self.answer else None,
            corrections=dict(self.corrections),
        )

    def step(self):
        """One reconcile, carried out; then the controllers of Kubernetes."""
        plan = reconcile(self.observe(), config=self.config, now=self.now)
        self.plans.append(plan)
        for action in plan.actions:
            key = (action.object["kind"], action.object["metadata"]["name"])
            if isinstance(action, Apply):
                self.apply(action.object)
            else:
                del self.children[key]
        self.service["status"] = json.loads(json.dumps(plan.status))
        self.move_on()
        return plan

    def settle(self, *, steps=30):
        """Reconcile until nothing is left to do; the number of steps is a bound, not a wait."""
        for _ in range(steps):
            before = copy.deepcopy((self.children, self.pods, self.reports, self.service))
            plan = self.step()
            self.now += timedelta(seconds=plan.requeue_after_s or 1)
            if before == (self.children, self.pods, self.reports, self.service):
                return plan
        raise AssertionError(f"not settled after {steps} steps; last plan {plan}")

    def apply(self, desired):
        """Server-side apply, with what the API server adds by itself."""
        key = (desired["kind"], desired["metadata"]["name"])
        live = copy.deepcopy(desired)
        old = self.children.get(key)
        created = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata = live["metadata"]
        metadata["uid"] = old["metadata"]["uid"] if old else f"uid-{key[0]}-{key[1]}-{created}"
        metadata["creationTimestamp"] = old["metadata"]["creationTimestamp"] if old else created
        changed = old is None or old.get("spec") != live.get("spec")
        metadata["generation"] = (old["metadata"]["generation"] if old else 0) + changed
        if old and "status" in old:
            live["status"] = old["status"]
        self.children[key] = live

    def move_on(self):
        """The Deployment controller, the kubelets and the instances, all at once."""
        for name, deployment in self.deployments.items():
            have = [pod for pod in self.pods if pod.startswith(f"{name}-")]
            for index in range(len(have), deployment["spec"]["replicas"]):
                self.pods[f"{name}-{index}"] = self._pod(name, index)
            for pod in have[deployment["spec"]["replicas"] :]:
                self._remove(pod)
        for pod in list(self.pods):
            if self.pods[pod]["metadata"]["labels"][names.REVISION_LABEL] not in self.deployments:
                self._remove(pod)
        for name, deployment in self.deployments.items():
            mine = [self.pods[pod] for pod in self.pods if pod.startswith(f"{name}-")]
            ready = sum(pod["status"]["conditions"][1]["status"] == "True" for pod in mine)
            deployment["status"] = {
                "observedGeneration": deployment["metadata"]["generation"],
                "replicas": len(mine),
                "updatedReplicas": len(mine),
                "readyReplicas": ready,
                "availableReplicas": ready,
                "conditions": [{"type": "Progressing", "status": str(name not in self.without_progress)}],
            }

    def fail(self, pod, *, container="engine", terminated, waiting="CrashLoopBackOff"):
        """A container of a pod has ended and is waiting to be started again."""
        kind = "initContainerStatuses" if container == "weights" else "containerStatuses"
        self.pods[pod]["status"]["conditions"][1]["status"] = "False"
        self.pods[pod]["status"][kind] = [
            {
                "name": container,
                "ready": False,
                "restartCount": 3,
                "state": {"waiting": {"reason": waiting}},
                "lastState": {"terminated": terminated},
            }
        ]
        self.reports.pop(pod, None)

    def _of_kind(self, kind):
        return {name: child for (child_kind, name), child in self.children.items() if child_kind == kind}

    def _pod(self, revision, index):
        ready = revision not in self.never_ready
        template = self.deployments[revision]["spec"]["template"]
        if ready and revision not in self.silent:
            self.reports[f"{revision}-{index}"] = a_report(revision)
        return {
            "metadata": {
                "name": f"{revision}-{index}",
                "uid": f"uid-{revision}-{index}",
                "labels": dict(template["metadata"]["labels"]),
            },
            "spec": {"nodeName": "node-1"},
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "PodScheduled", "status": "True"},
                    {"type": "Ready", "status": "True" if ready else "False"},
                ],
                "containerStatuses": [{"name": "engine", "ready": ready, "state": {"running": {}}}],
            },
        }

    def _remove(self, pod):
        del self.pods[pod]
        self.reports.pop(pod, None)


def a_report(revision, **fields):
    report = InstanceReport(
        ready=True,
        revision=revision,
        model_version="a09a354",
        weights_digest=DIGEST,
        stage="Serving",
        in_flight=0,
    )
    return replace(report, **fields)


def a_settled_cluster(**fields):
    cluster = Cluster(a_service(a_spec(**fields)))
    cluster.settle()
    return cluster


def only(things):
    (thing,) = things
    return thing


def child(cluster, kind):
    return only(value for (its_kind, _), value in cluster.children.items() if its_kind == kind)


def phases(cluster):
    return {record["name"]: record["phase"] for record in cluster.status["revisions"]}


def event_reasons(plans):
    return [event.reason for plan in plans for event in plan.events]
