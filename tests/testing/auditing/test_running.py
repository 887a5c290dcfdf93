"""How an audit runs its experiments."""

import signal
import threading

import pytest

from rillet.testing.auditing.bench import Plan
from rillet.testing.auditing.catalogue import Promise
from rillet.testing.auditing.running import Audit


@pytest.fixture
def interruptible():
    """Ctrl-C as in a terminal: what a shell runs in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_cancels_the_first_experiment_from_outside():
    """Between the start of a worker and the note that it runs, a KeyboardInterrupt would leave the worker behind."""
    ended = []

    def works(bench):
        try:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            while True:
                bench.until(lambda: False, seconds=60)
        except BaseException as error:
            ended.append((type(error).__name__, threading.current_thread() is threading.main_thread()))
            raise

    with pytest.raises(KeyboardInterrupt):
        Audit(Plan(), catalogue={"works": Promise("works", "", works)}).run()
    assert ended == [("Cancelled", False)]
