import pytest

from mlgo.learn.tensorflow import import_tensorflow


@pytest.fixture(scope="session")
def keras():
    import_tensorflow()
    import keras

    return keras
