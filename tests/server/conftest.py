import pytest
from support.launched import Launched


@pytest.fixture
def launch(tmp_path):
    """`launch(*words, folder=, program=)`: a server that ends with the test, in a folder of its own by default."""
    started = []

    def start(*words, folder=None, program=None):
        number = len(started)
        if folder is None:
            (folder := tmp_path / str(number)).mkdir()
        started.append(Launched(*words, folder=folder, out=tmp_path / f"out{number}", program=program))
        return started[-1]

    yield start
    for process in started:
        if process.popen.poll() is None:
            process.popen.kill()
        process.popen.wait()
