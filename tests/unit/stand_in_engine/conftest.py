import pytest
from tests.unit.stand_in_engine.harness import EngineProcess, model_folder


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return model_folder(tmp_path_factory.mktemp("stand-in") / "model")


@pytest.fixture(scope="session")
def shared_engine(model):
    """One engine for all tests that leave it as it was."""
    engine = EngineProcess(model, "--enable-server-load-tracking").wait_ready()
    yield engine
    engine.stop()


@pytest.fixture
def engine(shared_engine):
    """The shared engine, healthy again after each test."""
    yield shared_engine
    shared_engine.request("DELETE", "/faults")


@pytest.fixture
def start(model):
    """Starts engines of a test's own."""
    started = []

    def start(*arguments, model=model, **options):
        started.append(EngineProcess(model, *arguments, **options))
        return started[-1]

    yield start
    for engine in started:
        engine.stop()
