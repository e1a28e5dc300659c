"""Processes that have the library loaded as they start: forked from one that imports it once, which takes seconds each otherwise.

What is started here is a process of its own, with arguments, environment, standard output and exit status, but not the start of
an interpreter: tests of that start one.
"""

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

# Loads the library, and then forks for each line that names what to run; the child leaves the loop and runs it as a program does.
SERVER = """
import atexit, gc, json, os, runpy, sys, threading, time, traceback
import torch, torch.distributed, pandas, pyarrow.parquet, safetensors.torch
import crowdppl, crowdppl.cli.main, crowdppl.inference.distributed, crowdppl.inference.run
from crowdppl.inference.engines import em, gibbs
from crowdppl.inference.scale import sharded
assert crowdppl.fit and crowdppl.distribute and crowdppl.load

def answer(value):
    print(json.dumps(value), flush=True)

gc.freeze()  # what is loaded is not looked at again, and so not copied, by children
answer("loaded")
for line in iter(sys.stdin.readline, ""):
    task = json.loads(line)
    if "wait" in task:
        until = time.monotonic() + task["seconds"]
        pid, status = os.waitpid(task["wait"], os.WNOHANG)
        while not pid and time.monotonic() < until:
            time.sleep(0.005)
            pid, status = os.waitpid(task["wait"], os.WNOHANG)
        answer(os.waitstatus_to_exitcode(status) if pid else None)
        continue
    process = os.fork()
    if not process:
        break
    answer(process)
else:
    sys.exit()
for number, path in ((0, os.devnull), (1, task["out"]), (2, task["err"])):
    file = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, number)
    os.close(file)
sys.stdin = open(0)
os.environ |= task["environment"]
sys.argv = task["words"]
status = 0
try:
    if task["module"]:
        runpy.run_module(task["module"], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as ending:
    status = ending.code or 0
    if not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
except BaseException:
    traceback.print_exc()
    status = 1
# As an interpreter ends, but for its modules, whose taking apart takes a second.
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(status)
"""


class Forked:
    """A process forked from the one with the library loaded."""

    def __init__(self, nursery, number, place):
        self.nursery, self.number, self.place = nursery, number, place

    def wait(self, seconds=300.0):
        """Return the exit status, or ``None`` where it has not ended by then."""
        return self.nursery.ask({"wait": self.number, "seconds": seconds})

    def send_signal(self, number):
        os.kill(self.number, number)

    def written(self, stream="out"):
        return (self.place.parent / f"{self.place.name}.{stream}").read_text()

    def says(self, words, seconds=120.0):
        """Tell whether its output has these words before so many seconds are over."""
        until = time.monotonic() + seconds
        while words not in self.written() and time.monotonic() < until:
            time.sleep(0.005)
        return words in self.written()


class Nursery:
    """The process that has the library loaded."""

    def __init__(self, folder):
        self.folder, self.numbers = folder, itertools.count()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER], env=os.environ | {"OMP_NUM_THREADS": "1"}, **pipes
        )
        assert json.loads(self.server.stdout.readline()) == "loaded"

    def ask(self, task):
        self.server.stdin.write(json.dumps(task) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())

    def start(self, *words, module=None, **environment):
        """Start a script, the first of the words, or a module with these words."""
        place = self.folder / str(next(self.numbers))
        words = [str(word) for word in ([module, *words] if module else words)]
        files = {stream: str(place.parent / f"{place.name}.{stream}") for stream in ("out", "err")}
        for file in files.values():
            Path(file).touch()
        number = self.ask({"words": words, "module": module, "environment": environment, **files})
        return Forked(self, number, place)

    def start_ranks(self, processes, *words, module=None):
        """Start so many processes with what torchrun puts into the environment of each, or one without."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        everywhere = {"WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1"}
        everywhere |= {"MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "x"}
        ranks = (
            [everywhere | {"RANK": rank, "LOCAL_RANK": rank} for rank in range(processes)] if processes > 1 else [{}]
        )
        return [
            self.start(*words, module=module, **{name: str(value) for name, value in rank.items()}) for rank in ranks
        ]


@contextlib.contextmanager
def nursery(folder):
    """Yield a process with the library loaded, which ends with the block."""
    loaded = Nursery(folder)
    try:
        yield loaded
    finally:
        loaded.server.stdin.close()
        loaded.server.stdout.close()
        loaded.server.wait(60)
