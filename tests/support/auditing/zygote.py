"""Starts workers written in Python by fork, because a hundred audits start a thousand of them.

Each line of standard input is a request in JSON: ``{"source", "environment", "log"}`` starts a worker and is answered with its
process ID; ``{"status": pid}`` with its exit status, or null while it runs.
"""

import json
import os
import sys
import traceback

import redis
import redis.asyncio


def main():
    assert redis.asyncio
    for line in sys.stdin:
        request = json.loads(line)
        if "source" in request:
            pid = os.fork()
            if not pid:
                live(request)
            answer = pid
        else:
            found, status = os.waitpid(request["status"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if found else None
        print(json.dumps(answer), flush=True)


def live(request):
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(log, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(request["environment"])
    status = 0
    try:
        exec(compile(request["source"], "worker.py", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
