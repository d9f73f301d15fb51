import pytest


@pytest.fixture(scope="session")
def inliner_features(toolchain, settings, task):
    """Names of what the compiler sends the inliner."""
    from mlgo.host.session import probe_channel

    header = probe_channel(toolchain, task, settings)
    return [spec.name for spec in header.features if spec.name != "inlining_default"]
