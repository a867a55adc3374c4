"""One reconcile of one service, from reading it to saying what became of it.

observe -> decide -> apply -> write status -> emit Events. Everything is read anew each time: a
watch event says that something may have changed, never what. The decision is `core.reconcile`,
which is pure; what is here has no opinion of its own.

The first action that fails ends the plan, as later ones may rely on it. The status is written all
the same and names the failure (`failure.py`), and the key comes back after its back-off.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from stoker.api import names
from stoker.controller.corrections import Corrections
from stoker.controller.failure import failure_event, with_failure
from stoker.controller.model_files import ModelFilesReader
from stoker.controller.queue import Key
from stoker.core.config import Config
from stoker.core.model import Action, Apply, JsonObject, Observed
from stoker.core.reconcile import reconcile
from stoker.kube import resources
from stoker.kube.client import Client
from stoker.kube.errors import KubeError
from stoker.kube.recorder import Recorder
from stoker.signals.instance import InstanceReports

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Everything a reconcile needs; one for all workers."""

    client: Client
    reports: InstanceReports[Key]
    models: ModelFilesReader
    corrections: Corrections
    recorder: Recorder
    config: Config
    now: Callable[[], datetime]

    async def reconcile(self, key: Key) -> float | None:
        """Bring one service nearer to its spec; the seconds until it must be looked at again.

        Raises `KubeError` when something could not be read or written.
        """
        observed = await self._observe(key)
        if observed is None:
            # Its children go by owner reference; nothing is left for us to do.
            self.reports.forget(key)
            self.models.forget(key)
            return None
        answers_s = self.reports.refresh(key, observed.pods)
        plan = reconcile(observed, config=self.config, now=self.now())
        read_s = self.models.refresh(key, plan.model_to_read)
        failed = await self._execute(key, plan.actions)
        status, events = plan.status, plan.events
        if failed is not None:
            status = with_failure(status, failed, service=observed.service, now=self.now())
            events = (failure_event(failed),)
        if plan.correction is not None:
            await self.corrections.remember(plan.correction)
        await self._write_status(observed.service, status)
        await self.recorder.record(observed.service, events)
        if failed is not None:
            raise failed
        return min((s for s in (plan.requeue_after_s, answers_s, read_s) if s is not None), default=None)

    async def _observe(self, key: Key) -> Observed | None:
        service = await self.client.get(resources.INFERENCE_SERVICES, namespace=key.namespace, name=key.name)
        if service is None:
            return None
        name = names.child_name(key.name)
        selector = f"{names.SERVICE_LABEL}={name}"
        deployments, pods, endpoint, budget, account, memory = await asyncio.gather(
            self.client.list(resources.DEPLOYMENTS, namespace=key.namespace, label_selector=selector),
            self.client.list(resources.PODS, namespace=key.namespace, label_selector=selector),
            # By name, as there is one of each: cheaper than a list, and it shows what somebody else
            # made under the name that ours is to have.
            self.client.get(resources.SERVICES, namespace=key.namespace, name=name),
            self.client.get(resources.DISRUPTION_BUDGETS, namespace=key.namespace, name=name),
            self.client.get(resources.SERVICE_ACCOUNTS, namespace=key.namespace, name=name),
            self.client.get(
                resources.CONFIG_MAPS, namespace=key.namespace, name=names.model_files_name(key.name)
            ),
        )
        return Observed(
            service=service,
            deployments=tuple(deployments),
            pods=tuple(pods),
            services=(endpoint,) if endpoint else (),
            disruption_budgets=(budget,) if budget else (),
            service_accounts=(account,) if account else (),
            config_maps=(memory,) if memory else (),
            reports=self.reports.known(key, pods),
            reading=self.models.known(key),
            corrections=await self.corrections.known(),
        )

    async def _execute(self, key: Key, actions: tuple[Action, ...]) -> KubeError | None:
        """Do the actions in their order; the error of the first that failed."""
        for action in actions:
            what = resources.describe(action.object)
            verb = "apply" if isinstance(action, Apply) else "delete"
            _log.info(verb, extra={"service": str(key), "object": what, "reason": action.reason})
            try:
                if isinstance(action, Apply):
                    await self.client.apply(action.object, field_manager=names.FIELD_MANAGER)
                else:
                    await self.client.delete(action.object)
            except KubeError as error:
                return error
        return None

    async def _write_status(self, service: JsonObject, status: JsonObject) -> None:
        if status == service.get("status"):
            return
        metadata = {key: service["metadata"][key] for key in ("namespace", "name", "uid")}
        identity = {"apiVersion": service["apiVersion"], "kind": service["kind"], "metadata": metadata}
        await self.client.apply(
            identity | {"status": status},
            field_manager=names.STATUS_FIELD_MANAGER,
            subresource="status",
        )
