"""`python tests/differential/show.py tests/differential/scripts/xclaim.script [word of the title]`

Plays a script on every server that is installed and prints the replies side by side: how a new case is
made. `--all` prints the steps on which they agree, too; `--resp3` speaks RESP3.
"""

import argparse
import sys
from itertools import zip_longest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.script import parse_script, play_case
from support.servers import KINDS, find_binary, start_server


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("script", type=Path)
    options.add_argument("title", nargs="?", default="")
    options.add_argument("--all", action="store_true")
    options.add_argument("--resp3", action="store_true")
    options.add_argument("--servers", default=",".join(KINDS))
    chosen = options.parse_args()
    kinds = [kind for kind in chosen.servers.split(",") if find_binary(kind.partition("-")[0])]
    servers = {kind: start_server(kind) for kind in kinds}
    try:
        for case in parse_script(chosen.script):
            protocol = 3 if chosen.resp3 else 2
            if chosen.title not in case.title or protocol not in case.protocols:
                continue
            print(f"--- {case.title}")
            answers = [play_case(server.port, protocol, case) for server in servers.values()]
            for row in zip_longest(*answers):
                if not chosen.all and len({str(answer) for answer in row}) == 1:
                    continue
                step = next(answer.step for answer in row if answer)
                print(
                    f"{step.line}: {step.text}" + (f"   (on purpose: {step.purpose})" if step.purpose else "")
                )
                for kind, answer in zip(kinds, row, strict=True):
                    print(f"      {kind:7} {answer}")
    finally:
        for server in servers.values():
            server.discard()


if __name__ == "__main__":
    main()
