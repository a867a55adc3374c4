"""What is asked, whatever the model and the accelerators say? Options, and a service under them.

Without `-f` the engine's arguments come straight from the options. They are those that
`core/engine_args.py` makes of the same fields; it is not asked, as the models of the API take longer to
import than the whole answer takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.cli.plan.options import DEFAULT_OBJECTIVE, Options
from stoker.core.capacity.container import OUR_IMAGE, EngineContainer
from stoker.core.capacity.load import Load, RequestShape
from stoker.core.capacity.queueing import Objective
from stoker.core.model import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What `stoker plan` is asked."""

    model: str
    """Where the model is: a URI, a folder or a `config.json`."""
    revision: str
    accelerator: str | None
    """Name in the catalogue; None to leave it to advice."""
    container: EngineContainer
    """Of the engine; the number of accelerators is among its arguments."""
    shape: RequestShape | None
    """A typical request; None if nothing was said of it."""
    load: Load | None
    prices: Mapping[str, float]
    """Of one accelerator for one hour, by its name."""
    inter_token_s: float | None
    """Longest time from one token to the next that is promised; None without a promise."""
    most_requests: int | None
    """Requests that an instance may work on at once (`scaling.concurrency`)."""
    max_replicas: int | None
    service: JsonObject | None
    """The service of `-f` with the options laid over it."""


def read_request(options: Options) -> PlanRequest:
    """What is asked; a usage error if it makes no sense."""
    options.check()
    return _of_options(options) if options.service_file is None else _of_service(options)


def _of_options(options: Options) -> PlanRequest:
    arguments = {
        "--max-model-len": options.context,
        "--quantization": options.quantization,
        "--kv-cache-dtype": options.kv_dtype,
        "--max-num-seqs": options.max_num_seqs,
        "--tensor-parallel-size": None if options.accelerator == "cpu" else options.count,
    }
    return PlanRequest(
        model=options.model or "",
        revision=options.revision or "",
        accelerator=options.accelerator,
        container=EngineContainer(
            args=tuple(
                word for flag, value in arguments.items() if value is not None for word in (flag, str(value))
            ),
            environment=OUR_IMAGE,
        ),
        shape=options.shape,
        load=options.wanted_load(otherwise=DEFAULT_OBJECTIVE),
        prices=options.own_prices(),
        inter_token_s=None,
        most_requests=None,
        max_replicas=None,
        service=None,
    )


def _of_service(options: Options) -> PlanRequest:
    from stoker.cli.plan.manifest import with_options
    from stoker.cli.plan.service_file import load_service, read_service
    from stoker.core.fit_inputs import engine_container

    assert options.service_file is not None
    service = with_options(load_service(options.service_file), options)
    spec = read_service(service)
    objective = spec.scaling.objective
    latency = spec.objectives.inter_token_latency
    prices = options.own_prices()
    if spec.cost.per_accelerator_hour:
        prices.setdefault(spec.accelerator.type, spec.cost.per_accelerator_hour)
    return PlanRequest(
        model=options.model or spec.model.uri,
        revision=spec.model.revision or "",
        accelerator=spec.accelerator.type,
        container=engine_container(spec, service_name=service["metadata"]["name"]),
        shape=options.shape,
        load=options.wanted_load(
            otherwise=Objective(within_s=objective.start_within_seconds, percent=objective.percent)
        ),
        prices=prices,
        inter_token_s=latency.within_milliseconds / 1000 if latency else None,
        most_requests=spec.scaling.concurrency,
        max_replicas=spec.scaling.max_replicas,
        service=service,
    )
