def pytest_addoption(parser):
    parser.addoption("--requests", type=int, default=20_000, help="Requests of the gateway's soak.")
    parser.addoption("--seed", type=int, default=2026, help="What the soak follows from.")
