"""What is asked, with all that is read for it: the model, the catalogue, the engine's settings."""

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.cli.plan.options import Options, taken, usage
from stoker.cli.plan.read_model import read_model
from stoker.cli.plan.request import PlanRequest, read_request
from stoker.core.capacity.architecture import ModelConfig
from stoker.core.capacity.catalog import Accelerator, accelerator, with_prices
from stoker.core.capacity.container import loaded_as, settings_on, with_memory_of
from stoker.core.capacity.engine_settings import EngineSettings
from stoker.core.capacity.form import Form
from stoker.core.capacity.load import RequestShape
from stoker.core.capacity.model_config import read_model_config
from stoker.core.capacity.offer import Wanted

_TYPICAL = RequestShape(prompt_tokens=1024, output_tokens=256)
"""A turn of a chat, where nothing is said of the requests; only speed depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """All that an answer needs."""

    options: Options
    request: PlanRequest
    version: str
    """Commit of the model; empty if it is not known."""
    wanted: Wanted
    kinds: Sequence[Accelerator]
    """The accelerator that is named, or all to choose from."""
    settings: EngineSettings
    """For the first of them."""
    form: Form
    """Of the weights, as the engine's arguments ask for it."""

    @property
    def title(self) -> str:
        """Example: `hf://Qwen/Qwen2.5-7B-Instruct (Qwen2ForCausalLM) on 2 x nvidia-l40s, fp8`."""
        request = self.request
        where = "" if self.options.advise else f" on {self.settings.ranks} x {request.accelerator}"
        form = f", {self.form.argument}" if self.form.argument else ""
        return f"{request.model} ({self.wanted.model.architecture}){where}{form}"


def read_question(options: Options) -> Question:
    """What is asked; a usage error if something of it is wrong or can't be read."""
    request = read_request(options)
    files = read_model(request.model, revision=request.revision)
    model = taken(read_model_config(files.config), where=request.model)
    catalog = taken(with_prices(request.prices), where="--price")
    if options.advise and options.accelerator is None:
        kinds = list(catalog.values())
    else:
        kinds = [taken(accelerator(request.accelerator or "", among=catalog), where="--accelerator")]
    kinds = [with_memory_of(request.container, kind) for kind in kinds]
    settings = taken(settings_on(kinds[0], request.container), where="The engine's arguments")
    model, form = taken(loaded_as(model, request.container.args), where="--quantization")
    wanted = Wanted(
        model=model,
        stored=files.stored,
        shape=_shape(request, model, settings),
        load=request.load,
        inter_token_s=request.inter_token_s,
        most_requests=request.most_requests,
        max_replicas=request.max_replicas,
    )
    return Question(
        options=options,
        request=request,
        version=files.version,
        wanted=wanted,
        kinds=kinds,
        settings=settings,
        form=form,
    )


def _shape(request: PlanRequest, model: ModelConfig, settings: EngineSettings) -> RequestShape:
    """A typical request, no longer than the context."""
    shape = request.shape or _TYPICAL
    context = settings.max_model_len or model.context_length
    if context is None or shape.tokens <= context:
        return shape
    if request.shape is not None:
        raise usage(
            f"--prompt and --output: a request of {shape.tokens:,} tokens is longer than the context of "
            f"{context:,}; shorten it, or give --context."
        )
    prompt = max(1, context * shape.prompt_tokens // shape.tokens)
    return RequestShape(prompt_tokens=prompt, output_tokens=max(1, context - prompt))
